// Gossip protocol over one segment. Each peer with an established session gets the newest messages
// (gossip_store.h) of this node and those that arrived over this node's other segments. Each
// message is repeated until the peer acknowledges it.
//
// Pure logic: frames and the time are inputs, frames are the output. There are no sockets, clocks
// or threads. docs/gossip.md specifies the rules and the format.
//
//   Gossip gossip(config, &store);
//   for (;;) {
//     for each newly established peer: gossip.Admit(peer.node, peer.incarnation);
//     for each frame received:
//       if (IsGossip(frame.bytes)) gossip.Receive(frame.from, frame.bytes, now);
//     const size_t count = gossip.Send(room, now);
//     ... transmit room[0 ... count) ...
//   }
//
// Not thread-safe; other threads may use the store at the same time. Allocates nothing after
// construction: a little more than kMaxGossipBytes for each node and key of the cluster.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/node_id.h"
#include "segment/gossip/gossip_message.h"
#include "segment/gossip/gossip_store.h"

namespace millrace::inline segment {

struct GossipConfig {
  uint64_t run = 0;          // of the segment
  NodeId node = 0;           // this node
  uint32_t incarnation = 1;  // larger at each start of this node
  std::vector<NodeId> peers;
  // Largest frame of the segment, without a trailer. Longer messages are sent in fragments. At
  // least kGossipHeadBytes + kGossipFragmentUnit.
  size_t max_frame_bytes = 0;

  // Retransmit interval without an acknowledgement, before jitter of up to a half: starts at
  // first_ns and doubles up to slow_ns. From then on only one frame is sent each time, until an
  // acknowledgement arrives.
  int64_t first_ns = 20'000'000;
  int64_t slow_ns = 1'000'000'000;
};

// A frame to send, in the caller's memory, with room for a trailer.
struct OutGossip {
  static constexpr size_t kTrailerRoom = 24;
  NodeId to = 0;
  size_t fragment_bytes = 0;
  std::array<std::byte, kGossipHeadBytes + kMaxGossipBytes + kTrailerRoom> memory;

  std::span<std::byte, kGossipHeadBytes> head() {
    return std::span(memory).first<kGossipHeadBytes>();
  }
  std::span<std::byte> part() {
    return std::span(memory).subspan(kGossipHeadBytes, fragment_bytes);
  }
  std::span<std::byte> room() {
    return std::span(memory).subspan(kGossipHeadBytes + fragment_bytes, kTrailerRoom);
  }
  std::span<std::byte> frame() {
    return std::span(memory).first(kGossipHeadBytes + fragment_bytes);
  }
};

// Counters since construction.
struct GossipStats {
  uint64_t fragments_sent = 0;
  DropCounts drops;
};

class Gossip {
 public:
  // `store` outlives this object. Throws Error if max_frame_bytes is too small.
  Gossip(const GossipConfig& config, GossipStore* store);

  // `peer`, one of GossipConfig::peers, has a session as `incarnation`. It has none of the messages
  // that an earlier incarnation had. No effect if that incarnation is admitted already.
  void Admit(NodeId peer, uint32_t incarnation);
  // The handshake has raised this node's incarnation.
  void RaiseIncarnation(uint32_t incarnation);

  // Handles a received frame of any content. `from`: the sender according to the transport. The
  // bytes are not needed after the call.
  DropReason Receive(NodeId from, std::span<const std::byte> frame, int64_t now);
  // Writes due frames to the front of `room` and returns their number. The caller may drop frames
  // that it cannot transmit.
  size_t Send(std::span<OutGossip> room, int64_t now);
  // A frame of Send to `peer` was not transmitted: all that the peer lacks is due now.
  void NotSent(NodeId peer, int64_t now);
  // Earliest time at which Send may have frames if nothing is received or published before.
  // INT64_MIN or a time in the past: now. INT64_MAX: never.
  int64_t NextEvent() const { return store_.changes() != seen_ ? INT64_MIN : next_event_; }

  // Whether the peer has acknowledged all messages that it should get from here, as of the store's
  // first `changes` changes.
  bool Has(NodeId peer, uint64_t changes) const;
  // Value of GossipStore::changes() that Send has processed.
  uint64_t seen() const { return seen_; }

  const GossipStats& stats() const { return stats_; }

 private:
  struct PeerState {
    NodeId node = 0;
    uint32_t incarnation = 0;            // 0: not admitted
    std::vector<bool> pending, ack_due;  // by entry: the peer lacks it; acknowledgement due
    size_t pending_count = 0, acks = 0;  // number of bits set in each
    int64_t next_round = INT64_MIN, interval = 0;
    size_t entry = 0, offset = 0;  // progress of the current round
  };
  // Fragments of one message received so far.
  struct Assembly {
    GossipVersion version;
    uint16_t total = 0;
    std::array<uint64_t, kMaxGossipBytes / kGossipFragmentUnit / 64> units{};
    size_t count = 0;
  };

  PeerState* Find(NodeId node);
  const PeerState* Find(NodeId node) const;
  DropReason Take(NodeId from, std::span<const std::byte> frame, int64_t now);
  void TakeFragment(PeerState* peer, const GossipHead& head, std::span<const std::byte> part);
  void TakeAck(PeerState* peer, const GossipHead& head, int64_t now);
  // The whole message once all fragments have arrived; empty before.
  std::span<const std::byte> Assemble(size_t entry, const GossipHead& head,
                                      std::span<const std::byte> part);
  void Refresh(int64_t now);
  void SetPending(PeerState* peer, size_t entry, bool pending, int64_t now);
  size_t SendAcks(PeerState* peer, std::span<OutGossip> room);
  size_t SendFragments(PeerState* peer, std::span<OutGossip> room, int64_t now);
  void EndRound(PeerState* peer, int64_t now);
  GossipHead HeadFor(const PeerState& peer, size_t entry, GossipKind kind) const;
  bool Slow(const PeerState& peer) const { return peer.interval >= config_.slow_ns; }
  int64_t DueAt(const PeerState& peer) const;

  const GossipConfig config_;
  uint32_t incarnation_;  // of this node, as raised by the handshake
  const size_t fragment_bytes_;
  GossipStore& store_;
  const int link_;
  uint64_t seen_ = 0;
  std::vector<PeerState> peers_;
  size_t first_ = 0;                // peer served first
  std::vector<bool> ours_to_send_;  // by entry: exists and was not received over this segment
  std::vector<Assembly> assemblies_;
  std::vector<std::byte> assembled_;
  std::array<std::byte, kMaxGossipBytes> copy_;
  int64_t next_event_ = INT64_MIN;
  GossipStats stats_;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_
