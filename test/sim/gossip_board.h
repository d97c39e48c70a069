// Gossip messages between simulated nodes, for state machines of a cluster that publish and read
// messages under one key. A message reaches the other nodes after a fixed delay.
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

  void Publish(NodeId node, std::span<const std::byte> bytes, uint32_t incarnation = 1) {
    messages_[node].push_back({Now(), {node, incarnation, 1, {bytes.begin(), bytes.end()}}});
  }
  // The newest message of each node that `reader` has received. A node has its own at once.
  std::vector<GossipMessage> Read(NodeId reader) const {
    std::vector<GossipMessage> newest;
    for (const auto& [from, messages] : messages_) {
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
  void Forget(NodeId node) { messages_.erase(node); }
  void Clear() { messages_.clear(); }
  // Number of messages that a node has published since they were removed last.
  size_t published(NodeId node) const {
    const auto found = messages_.find(node);
    return found == messages_.end() ? 0 : found->second.size();
  }

 private:
  int64_t Now() const { return clock_ == nullptr ? 0 : clock_->NowNs(); }

  const Clock* const clock_;
  std::map<NodeId, std::vector<std::pair<int64_t, GossipMessage>>> messages_;  // with times
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_GOSSIP_BOARD_H_
