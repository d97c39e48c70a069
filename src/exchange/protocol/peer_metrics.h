// What an exchange counts of each of its peers, and how often it goes round its chunks.
// Written by the exchange's thread, read from any thread; each number is exact, two need
// not be of one instant.
//
// A *sweep* is over when every chunk has been exchanged at least once since it began; the
// next one begins then. A chunk is exchanged when this node takes a position of it, or
// sends one of a chunk that it masters itself. A peer's sweep is that over the chunks
// which the peer masters: it is over when a position of each has been taken. It begins
// anew when the view changes. Sweeps are counted in parts: a chunk adds 1 / chunks when it
// is exchanged for the first time within the sweep.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_
#define MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/count.h"
#include "base/duration_histogram.h"
#include "exchange/protocol/chunk_table.h"
#include "exchange/protocol/frame.h"

namespace millrace {

// Counted since the exchange was made. Bytes are those of the exchange's frames, without
// what seals and transports add.
struct PeerStats {
  uint64_t frames_out = 0, bytes_out = 0;  // to it; a multicast is one to each peer
  // From it: undamaged frames of this run, those among `drops` included.
  uint64_t frames_in = 0, bytes_in = 0;
  uint64_t positions_taken = 0;  // of chunks that it masters
  uint64_t diffs_sent = 0;       // to it, each once
  uint64_t resends = 0;          // of these
  uint64_t diffs_merged = 0;     // of its diffs, here
  double sweeps = 0;             // over the chunks that it masters
  // Its frames that went no further. What is damaged, or of another run, names no peer
  // and is counted by ExchangeStats only.
  std::array<uint64_t, static_cast<size_t>(Drop::kCount)> drops{};
  // From a diff's first sending to the position that acknowledges it.
  DurationHistogram round_trip;

  uint64_t dropped() const;  // for all reasons together
};

class PeerMetrics {
 public:
  // For nodes below `max_nodes`; `chunks` of one replica, 1 at least.
  PeerMetrics(uint16_t max_nodes, uint32_t chunks);
  PeerMetrics(const PeerMetrics&) = delete;
  PeerMetrics& operator=(const PeerMetrics&) = delete;

  PeerStats peer(uint16_t node) const;
  // Over all chunks.
  double sweeps() const { return static_cast<double>(steps_.Read()) / chunks_; }

  // For the exchange. Nodes are below max_nodes, or kAllNodes as a destination.
  void Sent(uint16_t destination, size_t bytes) {
    Traffic& out = destination == kAllNodes ? to_all_ : peers_[destination].out;
    out.frames.Add();
    out.bytes.Add(bytes);
  }
  void Received(uint16_t source, size_t bytes) {
    peers_[source].in.frames.Add();
    peers_[source].in.bytes.Add(bytes);
  }
  void Dropped(uint16_t source, Drop drop) {
    peers_[source].drops[static_cast<size_t>(drop)].Add();
  }
  void SentDiff(uint16_t master) { peers_[master].diffs_sent.Add(); }
  void Resent(uint16_t master) { peers_[master].resends.Add(); }
  void MergedDiff(uint16_t worker) { peers_[worker].diffs_merged.Add(); }
  void Answered(uint16_t master, int64_t ns) { peers_[master].round_trip.Add(ns); }
  // A position of a chunk was sent.
  void SentPosition(Chunk* chunk) { Step(chunk); }
  // A position of it was taken from its owner.
  void TookPosition(Chunk* chunk) {
    Step(chunk);
    Peer& peer = peers_[chunk->owner];
    peer.positions_taken.Add();
    if (((chunk->sweep_marks & kPeerMark) != 0) == peer.mark) return;
    chunk->sweep_marks ^= kPeerMark;
    peer.sweeps.store(peer.sweeps.load(std::memory_order_relaxed) + peer.share,
                      std::memory_order_relaxed);
    if (--peer.left > 0) return;
    peer.mark = !peer.mark;
    peer.left = peer.owned;
  }
  // Owners have changed: peers' sweeps begin anew. `all`: the sweep over all chunks, too.
  void BeginSweeps(ChunkTable* table, bool all);

 private:
  static constexpr uint8_t kMark = 1, kPeerMark = 2;  // of Chunk::sweep_marks

  struct Traffic {
    Count frames, bytes;
  };
  struct alignas(64) Peer {
    Traffic in, out;
    Count positions_taken, diffs_sent, resends, diffs_merged;
    std::atomic<double> sweeps{0};
    // A sweep under way: how its chunks are marked, how many are not yet, of how many.
    bool mark = true;
    uint32_t left = 0, owned = 0;
    double share = 0;  // of a sweep: 1 / owned
    std::array<Count, static_cast<size_t>(Drop::kCount)> drops;
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
  Count steps_;  // chunks exchanged for the first time in their sweep
  bool mark_ = true;
  uint32_t left_;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_PEER_METRICS_H_
