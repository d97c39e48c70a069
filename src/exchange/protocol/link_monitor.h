// Which nodes do not hear each other, and which members the view has to do without because
// of it.
//
// A failure detector tells a node which peers are silent to it. That is not enough where a
// link is broken between two nodes and a third hears both, or where only small frames pass
// (an MTU black hole): both would stay members, and each would miss what the other sends.
// Every node therefore notes which peers it does not hear, or hears in small frames only, and
// reports them to all in its heartbeats. From the reports each node computes the same set of
// members without which the rest hear each other.
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

namespace millrace {

// Node `from` does not hear node `to`.
struct BrokenLink {
  uint16_t from = 0, to = 0;
  bool operator==(const BrokenLink&) const = default;
};

class LinkMonitor {
 public:
  // After how many peer timeouts a link counts as broken. A peer that is silent to all is
  // dropped after one, so only a link that is broken for some stays so for longer.
  static constexpr int64_t kSilentTimeouts = 2;
  // The same where only small frames come; largest frames are rarer than heartbeats.
  static constexpr int64_t kSmallOnlyTimeouts = 3;
  // How many of its largest frames a node sends to all in a peer timeout, at least.
  static constexpr int64_t kLargestPerTimeout = 8;
  // Broken links with one cause come to light one after the other. The view changes when the
  // first has been known for 1 / kEvidencePerTimeout of a peer timeout.
  static constexpr int64_t kEvidencePerTimeout = 2;

  LinkMonitor(uint16_t node, uint16_t max_nodes, int64_t peer_timeout_ns);

  // A valid frame of `node` has come, whatever it says; `is_largest`: of the size of the
  // largest frames that nodes send. Returns whether that mends a link which this node has
  // reported as broken.
  bool OnFrame(uint16_t node, bool is_largest, int64_t now);
  // A heartbeat of `node` has come, with its report (ack words).
  void OnReport(uint16_t node, std::span<const std::byte> report);
  // This node did not run for `ns`, and so could hear nobody.
  void Skip(int64_t ns);
  // `view` follows `previous`. A peer that was dropped because this node does not hear it
  // counts as not heard at once.
  void OnView(const View& view, const View& previous, int64_t now);

  // Whether it is time for Look.
  bool IsDue(int64_t now) const { return now >= next_look_; }
  // Looks for members that are not heard, and evaluates all reports. `alive`: the nodes that
  // the failure detector believes in, this one included (ack words).
  void Look(const View& view, std::span<const uint64_t> alive, int64_t now);

  // This node's report: a bit for each node that it does not hear.
  std::span<const std::byte> report() const { return std::as_bytes(Row(node_)); }
  // Whether `from` says that it does not hear `to`.
  bool Reports(uint16_t from, uint16_t to) const { return TestBit(std::as_bytes(Row(from)), to); }
  // At least one of the two does not hear the other.
  bool IsBroken(uint16_t a, uint16_t b) const { return Reports(a, b) || Reports(b, a); }
  // The next view has to do without this member, as of the last Look.
  bool IsExcluded(uint16_t node) const {
    return TestBit(std::as_bytes(std::span(excluded_)), node);
  }
  // The broken links between members that are alive, as of the last Look; not all, if there
  // are very many.
  std::span<const BrokenLink> broken() const { return broken_; }
  // Whether small frames of a node come that this node reports.
  bool HearsSmallFrames(uint16_t node, int64_t now) const {
    return now - peers_[node].heard_at < kSilentTimeouts * peer_timeout_ns_;
  }

 private:
  struct Peer {
    int64_t heard_at = 0;    // any frame
    int64_t largest_at = 0;  // one of the largest
  };
  // A member, while members are excluded.
  struct Vertex {
    uint16_t node = 0;
    Role role = Role::kSynced;
    uint32_t degree = 0;  // broken links to others that are left
    bool is_left = true;
  };

  std::span<const uint64_t> Row(uint16_t node) const {
    return {rows_.data() + size_t{node} * words_, words_};
  }
  std::span<uint64_t> Row(uint16_t node) { return {rows_.data() + size_t{node} * words_, words_}; }
  void NoteSilence(const View& view, int64_t now);
  void FindBroken(const View& view, std::span<const uint64_t> alive);
  void Exclude();
  Vertex* Worst();

  const uint16_t node_;
  const size_t words_;
  const int64_t peer_timeout_ns_;
  std::vector<Peer> peers_;
  std::vector<uint64_t> rows_;  // by node: the last report; this node's own, too
  std::vector<uint64_t> excluded_;
  std::vector<BrokenLink> broken_;
  std::vector<Vertex> vertices_;
  int64_t next_look_ = 0;
  int64_t broken_since_ = -1;  // when the first of `broken_` came to light; -1: there is none
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_PROTOCOL_LINK_MONITOR_H_
