// Brings gossip messages (gossip_store.h) over one segment: each peer that has established
// itself gets the newest of this node's, and of those that came by its other segments,
// again and again until it has sent a acknowledgement.
//
// Pure logic: frames and the time go in, frames come out; no sockets, no clock, no threads.
// docs/gossip.md has the rules and the bytes.
//
//   for (;;) {
//     for each peer newly established: gossip messages.Admit(peer.node, peer.incarnation);
//     for each frame that came:
//       if (IsGossip(frame.bytes)) gossip messages.Receive(frame.from, frame.bytes, now);
//     const size_t count = gossip messages.Send(room, now);
//     ... transmit room[0 ... count) ...
//   }
//
// Not thread-safe, but for the store, which others may use meanwhile. Allocates nothing
// after it was made: kMaxGossipBytes and some for each node and topic of the cluster.
#ifndef MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_
#define MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/node_id.h"
#include "segment/gossip/gossip_message.h"
#include "segment/gossip/gossip_store.h"

namespace millrace {

struct GossipConfig {
  uint64_t run = 0;          // of the segment
  NodeId node = 0;           // this one
  uint32_t incarnation = 1;  // larger each time that this node is started
  std::vector<NodeId> peers;
  // The longest frame that the segment carries, without a trailer; longer gossip messages are
  // cut. At least kGossipHeadBytes + kGossipFragmentUnit.
  size_t max_frame_bytes = 0;

  // Without a acknowledgement everything is sent again after the first; after twice as long each
  // time, and after the second only one frame, until one comes.
  int64_t first_ns = 20'000'000;
  int64_t slow_ns = 1'000'000'000;
};

// A frame to send, in memory of the caller's, with room behind it.
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

// Counted since the object was made.
struct GossipStats {
  uint64_t fragments_sent = 0, acks_sent = 0;
  uint64_t fragments_received = 0, acks_received = 0;
  uint64_t taken = 0;  // gossip messages that were new
  GossipDrops drops{};
};

class Gossip {
 public:
  // `store` outlives this object. Throws Error if a frame has no room.
  Gossip(const GossipConfig& config, GossipStore* store);

  // `peer` (of the config's) lives in `incarnation` and has nothing of what an earlier life
  // had. Does nothing if that is known.
  void Admit(NodeId peer, uint32_t incarnation);
  // This node has completed the handshake anew, by a larger incarnation.
  void RaiseIncarnation(uint32_t incarnation);

  // Takes one frame, whatever it holds. `from`: the sender as the transport knows it. The
  // bytes are not needed after the call.
  GossipDrop Receive(NodeId from, std::span<const std::byte> frame, int64_t now);
  // Fills the front of `room` and returns how many. A frame that cannot be transmitted may
  // be thrown away.
  size_t Send(std::span<OutGossip> room, int64_t now);
  // A frame of Send's to `peer` never left: what it lacks is due again, as if never sent.
  void NotSent(NodeId peer, int64_t now);
  // When Send may have something to do if nothing comes and nothing is published before:
  // INT64_MIN or any time that has passed for at once, INT64_MAX for never.
  int64_t NextEvent() const { return store_.changes() != seen_ ? INT64_MIN : next_event_; }

  // The peer has sent acknowledgements for all that it is to have, of the first changes() of the
  // store.
  bool Has(NodeId peer, uint64_t changes) const;
  // Changes of the store that Send has looked at.
  uint64_t seen() const { return seen_; }

  const GossipStats& stats() const { return stats_; }

 private:
  struct PeerState {
    NodeId node = 0;
    uint32_t incarnation = 0;            // 0: not admitted
    std::vector<bool> pending, ack_due;  // by entry: it is to have it; a acknowledgement for it
    size_t pending_count = 0, acks = 0;  // how many
    int64_t next_round = INT64_MIN, interval = 0;
    size_t entry = 0, offset = 0;  // how far the present round is
  };
  // What has come of a gossip message in several parts.
  struct Assembly {
    GossipVersion version;
    uint16_t total = 0;
    std::array<uint64_t, kMaxGossipBytes / kGossipFragmentUnit / 64> units{};
    size_t count = 0;
  };

  PeerState* Find(NodeId node);
  const PeerState* Find(NodeId node) const;
  GossipDrop Take(NodeId from, std::span<const std::byte> frame, int64_t now);
  void TakeFragment(PeerState* peer, const GossipHead& head, std::span<const std::byte> part);
  void TakeAck(PeerState* peer, const GossipHead& head, int64_t now);
  // The whole gossip message, once all parts are there.
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
  uint32_t incarnation_;  // this node's, as it has completed the handshake
  const size_t fragment_bytes_;
  GossipStore& store_;
  const int link_;
  uint64_t seen_ = 0;
  std::vector<PeerState> peers_;
  size_t first_ = 0;                // the peer whose turn is first
  std::vector<bool> ours_to_send_;  // by entry: there is one, and it came by no peer of here
  std::vector<Assembly> assemblies_;
  std::vector<std::byte> assembled_;
  std::array<std::byte, kMaxGossipBytes> copy_;
  int64_t next_event_ = INT64_MIN;
  GossipStats stats_;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_GOSSIP_GOSSIP_H_
