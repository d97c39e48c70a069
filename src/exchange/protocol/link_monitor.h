// Detects broken links between nodes, and determines which members the next view must exclude
// because of them.
//
// A failure detector finds peers that are unresponsive to one node. It does not suffice if a link
// between two nodes is broken while a third node reaches both, or if only small frames pass (an MTU
// black hole): both nodes would stay members, and each would miss frames of the other. Therefore
// every node records from which peers it receives no frames, or small frames only, and reports them
// to all nodes in its heartbeats. From these reports each node computes the same set of members to
// exclude, such that the remaining members receive frames of all sizes from each other.
//
// Pure logic: times are the exchange's `now`, in ns. Not thread-safe.
// Allocates nothing after construction.
#ifndef MILLRACE_EXCHANGE_PROTOCOL_LINK_MONITOR_H_
#define MILLRACE_EXCHANGE_PROTOCOL_LINK_MONITOR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/protocol/frame.h"
#include "exchange/protocol/view.h"

namespace millrace::inline exchange {

// Node `from` receives no frames, or small frames only, from node `to`.
struct BrokenLink {
  uint16_t from = 0, to = 0;
  bool operator==(const BrokenLink&) const = default;
};

class LinkMonitor {
 public:
  // Peer timeouts without a frame after which a link counts as broken. A peer that is unresponsive
  // to all nodes is dropped after one, so a longer silence means a link that is broken for some.
  static constexpr int64_t kUnresponsiveTimeouts = 2;
  // The same without a full-size frame, of which the peer has sent kMissed at least. Full-size
  // frames are less frequent than heartbeats.
  static constexpr int64_t kSmallOnlyTimeouts = 3;
  static constexpr uint16_t kMissed = 12;
  // Minimum number of full-size frames that a node sends to all nodes per peer timeout; fewer on a
  // segment that carries less than the node has to send, and on a slow link.
  static constexpr int64_t kFullSizePerTimeout = 8, kFullSizeIfThrottled = 1;
  // Broken links with a common cause are detected one after the other. Members are excluded when
  // the first one has been known for 1 / kEvidencePerTimeout of a peer timeout.
  static constexpr int64_t kEvidencePerTimeout = 2;

  LinkMonitor(uint16_t node, uint16_t max_nodes, int64_t peer_timeout_ns);

  // Records a valid frame of `node`, of any type. `is_full_size`: the frame has full size, that of
  // the position of a full chunk, or of the largest heartbeat where chunks are smaller. Returns
  // whether the frame repairs a link that this node reported as broken; only a full-size frame
  // does.
  bool OnFrame(uint16_t node, bool is_full_size, int64_t now);
  // Records the report (ack words) in a heartbeat of `node`, and how many full-size frames that
  // node had sent to all nodes before, modulo 2^16.
  void OnReport(uint16_t node, std::span<const std::byte> report, uint16_t full_size_sent,
                int64_t now);
  // Extends all deadlines by `ns`, during which this node did not run and could not receive frames.
  void Skip(int64_t ns);
  // Records that `view` replaces `previous`. Reports a dropped peer as broken at once if it was
  // unresponsive to this node.
  void OnView(const View& view, const View& previous, int64_t now);

  // Whether it is time for Look.
  bool IsDue(int64_t now) const { return now >= next_look_; }
  // Updates this node's report and evaluates the reports of all nodes. `alive`: the nodes that the
  // failure detector considers alive, including this one (ack words).
  void Update(const View& view, std::span<const uint64_t> alive, int64_t now);

  // This node's report (ack words): a bit for each node to which its link is broken.
  std::span<const std::byte> report() const { return std::as_bytes(Row(node_)); }
  // Whether `from` reports that it receives no frames, or small frames only, from `to`.
  bool Reports(uint16_t from, uint16_t to) const { return TestBit(std::as_bytes(Row(from)), to); }
  // Whether at least one of the two reports the other.
  bool IsBroken(uint16_t a, uint16_t b) const { return Reports(a, b) || Reports(b, a); }
  // Whether the next view must exclude this member, as of the last Look.
  bool IsExcluded(uint16_t node) const {
    return TestBit(std::as_bytes(std::span(excluded_)), node);
  }
  // Broken links between members that are alive, as of the last Look; truncated if there are very
  // many.
  std::span<const BrokenLink> broken() const { return broken_; }
  // Whether a frame of `node` arrived within kUnresponsiveTimeouts peer timeouts. If this node
  // reports `node`, only small frames pass.
  bool ReceivesSmallFrames(uint16_t node, int64_t now) const {
    return now - peers_[node].last_frame_at < kUnresponsiveTimeouts * peer_timeout_ns_;
  }

 private:
  struct Peer {
    int64_t last_frame_at = 0;  // last frame of any size
    int64_t full_size_at = 0;   // last full-size frame
    int64_t report_at = 0;      // last heartbeat
    // Full-size frames that the peer says that it has sent since its first heartbeat after the last
    // one that arrived, whose count was `counted_from`.
    uint16_t missed = 0, counted_from = 0;
    bool counts_anew = true;  // no heartbeat has arrived since that frame
  };
  // A live member, in the graph of broken links.
  struct Vertex {
    uint16_t node = 0;
    Role role = Role::kSynced;
    uint32_t degree = 0;  // broken links to members that remain
    bool is_left = true;  // not excluded so far
  };

  std::span<const uint64_t> Row(uint16_t node) const {
    return {rows_.data() + size_t{node} * words_, words_};
  }
  std::span<uint64_t> Row(uint16_t node) { return {rows_.data() + size_t{node} * words_, words_}; }
  void ReportUnresponsive(const View& view, int64_t now);
  bool GetsSmallOnly(const Peer& peer, int64_t now) const;
  void FindBroken(const View& view, std::span<const uint64_t> alive);
  void CountDegrees();
  void Exclude();
  Vertex* Worst();

  const uint16_t node_;
  const size_t words_;
  const int64_t peer_timeout_ns_;
  std::vector<Peer> peers_;
  std::vector<uint64_t> rows_;  // by node: its last report, including this node's own
  std::vector<uint64_t> excluded_;
  std::vector<BrokenLink> broken_;
  std::vector<Vertex> vertices_;
  int64_t next_look_ = 0;
  int64_t broken_since_ = -1;  // when the first link of `broken_` was detected; -1: none
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_PROTOCOL_LINK_MONITOR_H_
