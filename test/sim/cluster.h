// Nodes that train on whatever a test makes of them, over simulated links; for
// properties of numbers, where World is for properties of tokens.
#ifndef MILLRACE_TEST_SIM_CLUSTER_H_
#define MILLRACE_TEST_SIM_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "test/sim/network.h"
#include "test/support/exchange_node.h"

namespace millrace::sim {

struct ClusterOptions {
  uint16_t nodes = 2;
  int64_t size = 64, chunk_floats = 16;
  CodecConfig codec = {};
  LinkFaults faults = {};
  uint64_t seed = 0;
  bool damping = false;
};

class Cluster {
 public:
  // All nodes have joined when it is made.
  explicit Cluster(const ClusterOptions& options);

  uint16_t size() const { return static_cast<uint16_t>(nodes_.size()); }
  int64_t chunks() const { return nodes_[0].executor->arrays().chunks(); }
  int64_t tick() const { return tick_; }
  std::vector<float>& weights(size_t node) { return nodes_[node].weights; }
  const Exchange& exchange(size_t node) const { return *nodes_[node].exchange; }
  ChunkExecutor& executor(size_t node) { return *nodes_[node].executor; }
  uint16_t owner(uint32_t chunk) const { return exchange(0).table().chunks[chunk].owner; }

  // A tick; `step` is what a node's solver does meanwhile, in so many iterations. Without: nobody
  // makes progress.
  using SolverStep = std::function<void(uint16_t node, std::vector<float>& weights)>;
  void Tick(const SolverStep& step = nullptr, uint64_t iterations = 1);
  // Until nothing is left to do; fails the test if that takes long.
  void Settle();
  // Training has ended: nodes send what they hold back, or drop it.
  void Flush();
  // Frames sent so far that are not for membership.
  uint64_t frames() const;

 private:
  Network network_;
  std::vector<test::ExchangeNode> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_CLUSTER_H_
