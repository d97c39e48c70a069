// Gossip between nodes on segments of simulated links. Nodes of a segment have sessions as soon as
// both run. A tick is a millisecond.
#ifndef MILLRACE_TEST_SIM_GOSSIP_CLUSTER_H_
#define MILLRACE_TEST_SIM_GOSSIP_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "segment/gossip/gossip.h"
#include "test/sim/network.h"
#include "test/sim/shape.h"

namespace millrace::sim {

class GossipCluster {
 public:
  static constexpr uint64_t kRun = 0x5eed;  // of the first segment

  explicit GossipCluster(const Shape& shape, const LinkFaults& faults = {},
                         size_t frame_bytes = 300, uint64_t seed = 0);

  // Starts or restarts the node.
  void Start(NodeId node);
  void StartAll();
  void Stop(NodeId node) { nodes_[node] = {}; }
  void set_faults(const LinkFaults& faults);

  void Publish(NodeId node, const std::string& text, GossipKey key = GossipKey::kReport);
  // Message of `publisher` as received by `node`; "-" if none.
  std::string Read(NodeId node, NodeId publisher, GossipKey key = GossipKey::kReport) const;
  // Returns true if all running nodes have received `text` from `publisher`.
  bool AllRead(NodeId publisher, const std::string& text) const;

  void Run(int64_t ms);
  // Runs until no frame is in flight and no node has anything left to send; false if that takes
  // longer than `ms`.
  bool Settles(int64_t ms);
  Gossip& link(NodeId node, size_t segment = 0) { return *nodes_[node].links[segment]; }
  GossipStore& store(NodeId node) { return *nodes_[node].store; }
  size_t sent() const { return sent_; }
  int64_t now() const { return tick_ * kMs; }

 private:
  struct Node {
    std::unique_ptr<GossipStore> store;
    std::vector<std::unique_ptr<Gossip>> links;  // by segment; null: not a member
  };

  void Establish();
  void Step();
  bool Quiet() const;

  const Shape shape_;
  const size_t frame_bytes_;
  std::vector<Network> networks_;  // by segment
  std::vector<Node> nodes_;
  std::vector<uint32_t> incarnations_;
  int64_t tick_ = 1;
  size_t sent_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_GOSSIP_CLUSTER_H_
