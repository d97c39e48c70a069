// A ClusterPeers of one simulated node: gossip goes over a GossipBoard, and the test sets all other
// answers.
#ifndef MILLRACE_TEST_SIM_FAKE_PEERS_H_
#define MILLRACE_TEST_SIM_FAKE_PEERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cluster/cluster_peers.h"
#include "test/sim/gossip_board.h"

namespace millrace::sim {

// Not thread-safe.
class FakePeers : public ClusterPeers {
 public:
  // Without `gossip`, messages are lost. It outlives this object.
  explicit FakePeers(NodeId self, GossipBoard* gossip = nullptr) : self_(self), gossip_(gossip) {}

  // Answers. A node alone by default, that has the run's weights.
  std::function<std::vector<NodeId>(Recency)> on_responsive;
  std::function<bool()> on_begun, on_is_leader, on_has_dependents, on_alone, on_all_acked, on_left,
      on_delivered, on_idle, on_settled;
  std::function<uint32_t()> on_members;
  std::function<uint64_t()> on_merges, on_non_finite;
  std::function<void()> on_flush, on_leave;

  NodeId self() const override { return self_; }
  void Publish(GossipKey key, std::span<const std::byte> bytes) override {
    if (gossip_ != nullptr) gossip_->Publish(self_, bytes, 1, key);
  }
  std::vector<GossipMessage> Read(GossipKey key) const override {
    return gossip_ != nullptr ? gossip_->Read(self_, key) : std::vector<GossipMessage>();
  }
  std::vector<NodeId> ResponsivePeers(Recency recency) override {
    return on_responsive ? on_responsive(recency) : std::vector<NodeId>();
  }
  bool begun() const override { return !on_begun || on_begun(); }
  bool is_leader() const override { return on_is_leader && on_is_leader(); }
  bool has_dependents() const override { return on_has_dependents && on_has_dependents(); }
  bool alone() const override { return !on_alone || on_alone(); }
  uint32_t members() const override { return on_members ? on_members() : 1; }
  bool all_acked() const override { return !on_all_acked || on_all_acked(); }
  bool idle() const override { return !on_idle || on_idle(); }
  uint64_t merges() const override { return on_merges ? on_merges() : 0; }
  void Flush() override {
    if (on_flush) on_flush();
  }
  void Leave() override {
    if (on_leave) on_leave();
  }
  bool left() const override { return !on_left || on_left(); }
  bool delivered() const override { return !on_delivered || on_delivered(); }
  bool settled() const override { return !on_settled || on_settled(); }
  uint64_t non_finite() const override { return on_non_finite ? on_non_finite() : 0; }

 private:
  const NodeId self_;
  GossipBoard* const gossip_;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_FAKE_PEERS_H_
