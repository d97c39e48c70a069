// Counters of an exchange per peer, and its number of sweeps. The exchange's thread writes, any
// thread may read. Each number is exact; two numbers need not be of the same instant.
//
// A *sweep* ends when every chunk has been exchanged at least once since its begin; the next sweep
// begins then. A chunk is exchanged when this node takes a position of it, or sends one as its
// master. A peer's sweep covers the chunks that the peer masters, and ends when a position of each
// has been taken. It restarts when the view changes. Sweeps are counted in fractions: a chunk adds
// 1 / chunks when it is exchanged for the first time within the sweep.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_
#define MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_

#include <cstdint>
#include <vector>

#include "base/duration_histogram.h"
#include "exchange/protocol/chunk_table.h"
#include "exchange/protocol/frame.h"
#include "millrace/counter.h"

namespace millrace::inline exchange {

// Counted since construction of the exchange. Bytes are those of the exchange's frames, without
// frame tags and transport headers.
struct PeerCounts {
  uint64_t frames_out = 0, bytes_out = 0;  // to the peer; a multicast counts for each peer
  // From the peer: intact frames of this run, including those in `drops`.
  uint64_t frames_in = 0, bytes_in = 0;
  uint64_t positions_taken = 0;  // of chunks that the peer masters
  uint64_t diffs_sent = 0;       // to the peer, without retransmissions
  uint64_t resends = 0;          // retransmissions of these
  uint64_t diffs_merged = 0;     // diffs of the peer that this node merged
  double sweeps = 0;             // over the chunks that the peer masters
  // Dropped frames of the peer, by reason. Corrupted frames and frames of another run name no peer;
  // only ExchangeStats counts them.
  DropCounts drops;
};
struct PeerStats : PeerCounts {
  // From the first transmission of a diff to the position that acknowledges it.
  DurationHistogram round_trip;
};

class PeerMetrics {
 public:
  // For nodes below `max_nodes`. `chunks`: number of chunks, at least 1.
  PeerMetrics(uint16_t max_nodes, uint32_t chunks);
  PeerMetrics(const PeerMetrics&) = delete;
  PeerMetrics& operator=(const PeerMetrics&) = delete;

  PeerStats peer(uint16_t node) const { return {counts(node), peers_[node].round_trip.Read()}; }
  PeerCounts counts(uint16_t node) const;
  // Sweeps over all chunks.
  double sweeps() const { return static_cast<double>(steps_.Read()) / chunks_; }

  // Exchange's thread only. Nodes are below max_nodes; `destination` may also be kAllNodes.
  void Sent(uint16_t destination, size_t bytes) {
    Traffic& out = destination == kAllNodes ? to_all_ : peers_[destination].out;
    out.frames.Add();
    out.bytes.Add(bytes);
  }
  void Received(uint16_t source, size_t bytes) {
    peers_[source].in.frames.Add();
    peers_[source].in.bytes.Add(bytes);
  }
  void Dropped(uint16_t source, DropReason drop) { peers_[source].drops.Add(drop); }
  void SentDiff(uint16_t master) { peers_[master].diffs_sent.Add(); }
  void Resent(uint16_t master) { peers_[master].resends.Add(); }
  void MergedDiff(uint16_t worker) { peers_[worker].diffs_merged.Add(); }
  void RecordReply(uint16_t master, int64_t ns) { peers_[master].round_trip.Add(ns); }
  // This node sent a position of the chunk.
  void SentPosition(Chunk* chunk) { Step(chunk); }
  // This node took a position of the chunk from its owner.
  void TakenPosition(Chunk* chunk) {
    Step(chunk);
    Peer& peer = peers_[chunk->owner];
    peer.positions_taken.Add();
    if (((chunk->sweep_marks & kPeerMark) != 0) == peer.mark) return;
    chunk->sweep_marks ^= kPeerMark;
    peer.sweeps.Add(peer.share);
    if (--peer.left > 0) return;
    peer.mark = !peer.mark;
    peer.left = peer.owned;
  }
  // Restarts the peers' sweeps after a change of owners; with `all`, also the sweep over all
  // chunks.
  void BeginSweeps(ChunkTable* table, bool all);

 private:
  static constexpr uint8_t kMark = 1, kPeerMark = 2;  // bits of Chunk::sweep_marks

  struct Traffic {
    Counter frames, bytes;
  };
  struct alignas(64) Peer {
    Traffic in, out;
    Counter positions_taken, diffs_sent, resends, diffs_merged;
    Gauge sweeps;
    // Current sweep: value of kPeerMark in exchanged chunks, chunks left, chunks in total.
    bool mark = true;
    uint32_t left = 0, owned = 0;
    double share = 0;  // fraction of a sweep per chunk: 1 / owned
    DropCounters drops;
    DurationCount round_trip;
  };

  void Step(Chunk* chunk) {
    if (((chunk->sweep_marks & kMark) != 0) == mark_) return;
    chunk->sweep_marks ^= kMark;
    steps_.Add();
    if (--left_ > 0) return;
    mark_ = !mark_;
    left_ = chunks_;
  }

  const uint32_t chunks_;
  std::vector<Peer> peers_;
  Traffic to_all_;
  Counter steps_;  // chunks exchanged for the first time in their sweep
  bool mark_ = true;
  uint32_t left_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_
