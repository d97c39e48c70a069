// Nodes that run a solver step given by the test, over simulated links. For numerical
// properties; World checks properties of tokens.
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
  // Returns when all nodes have joined.
  explicit Cluster(const ClusterOptions& options);

  uint16_t size() const { return static_cast<uint16_t>(nodes_.size()); }
  int64_t chunks() const { return nodes_[0].executor->arrays().chunks(); }
  int64_t tick() const { return tick_; }
  std::vector<float>& weights(size_t node) { return nodes_[node].weights; }
  const Exchange& exchange(size_t node) const { return *nodes_[node].exchange; }
  ChunkExecutor& executor(size_t node) { return *nodes_[node].executor; }
  uint16_t owner(uint32_t chunk) const { return exchange(0).table().chunks[chunk].owner; }

  // Advances one tick. `step` is the progress of a node's solver in this tick and counts as
  // `iterations`. Without `step`, no node makes progress.
  using SolverStep = std::function<void(uint16_t node, std::vector<float>& weights)>;
  void Tick(const SolverStep& step = nullptr, uint64_t iterations = 1);
  // Runs until no work is left; fails the test after 4000 ticks.
  void Settle();
  // Ends training: nodes send or drop the progress that they hold back. Then settles.
  void Flush();
  // Frames sent so far, without heartbeats and membership frames.
  uint64_t frames() const;

 private:
  Network network_;
  std::vector<test::ExchangeNode> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_CLUSTER_H_
