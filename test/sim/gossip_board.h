// Gossip messages between simulated nodes, for state machines of a cluster. A message reaches the
// other nodes after a fixed delay.
#ifndef MILLRACE_TEST_SIM_GOSSIP_BOARD_H_
#define MILLRACE_TEST_SIM_GOSSIP_BOARD_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "segment/gossip/gossip_store.h"

namespace millrace::sim {

// Not thread-safe. Has to outlive the functions that it returns.
class GossipBoard {
 public:
  // `clock` has to outlive this object; null: messages arrive at once.
  explicit GossipBoard(const Clock* clock = nullptr) : clock_(clock) {}

  int64_t delay_ns = 0;
  // Returns true if a node receives the messages of another; unset: always.
  std::function<bool(NodeId from, NodeId to)> carries;

  void Publish(NodeId node, std::span<const std::byte> bytes, uint32_t incarnation = 1,
               GossipKey key = GossipKey{}) {
    messages_[{node, key}].push_back({Now(), {node, incarnation, 1, {bytes.begin(), bytes.end()}}});
  }
  // The newest message of each node that `reader` has received. A node has its own at once.
  std::vector<GossipMessage> Read(NodeId reader, GossipKey key = GossipKey{}) const {
    std::vector<GossipMessage> newest;
    for (const auto& [of, messages] : messages_) {
      if (of.second != key) continue;
      const NodeId from = of.first;
      const bool is_own = from == reader;
      if (!is_own && carries && !carries(from, reader)) continue;
      const auto found = std::find_if(messages.rbegin(), messages.rend(), [&](const auto& each) {
        return is_own || each.first + delay_ns <= Now();
      });
      if (found != messages.rend()) newest.push_back(found->second);
    }
    return newest;
  }
  // Publish and Read of a node, as its state machines call them.
  auto Publisher(NodeId node) {
    return [this, node](std::span<const std::byte> bytes) { Publish(node, bytes); };
  }
  auto Reader(NodeId node) {
    return [this, node] { return Read(node); };
  }

  // Removes the messages of a node, or of all nodes.
  void Forget(NodeId node) {
    std::erase_if(messages_, [&](const auto& each) { return each.first.first == node; });
  }
  void Clear() { messages_.clear(); }
  // Number of messages that a node has published since they were removed last.
  size_t published(NodeId node) const {
    size_t count = 0;
    for (const auto& [of, messages] : messages_) count += of.first == node ? messages.size() : 0;
    return count;
  }

 private:
  int64_t Now() const { return clock_ == nullptr ? 0 : clock_->NowNs(); }

  const Clock* const clock_;
  // By node and key, with times.
  std::map<std::pair<NodeId, GossipKey>, std::vector<std::pair<int64_t, GossipMessage>>> messages_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_GOSSIP_BOARD_H_
