// Nodes that are joined by several segments as a tree: a node in two of them has one array of
// weights and an exchange for each. Solvers add whole tokens, each node to lanes of its own, as in
// sim_node.h.
#ifndef MILLRACE_TEST_SIM_TREE_H_
#define MILLRACE_TEST_SIM_TREE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exchange/protocol/exchange.h"
#include "test/sim/network.h"
#include "test/sim/sim_node.h"

namespace millrace::sim {

// Node 0 begins the run. The first node of each further segment is the one through which its
// others reach node 0.
struct TreeShape {
  uint16_t nodes = 0;
  std::vector<std::vector<uint16_t>> segments;
};

struct TreeOptions {
  TreeShape shape;
  uint64_t seed = 0;
  int chunks = 4;
  LinkFaults faults = {};
  double busy = 0.6;  // chance that a solver makes a step in a tick
};

class Tree {
 public:
  explicit Tree(const TreeOptions& options);

  int64_t tick() const { return tick_; }
  bool running(uint16_t node) const { return !nodes_[node].ends.empty(); }
  void Start(uint16_t node);
  void Crash(uint16_t node);
  void FreezeUntil(uint16_t node, int64_t tick) { nodes_[node].frozen_until = tick; }
  // From now on, whether solvers make progress.
  void Train(bool train) { training_ = train; }
  void Heal();

  // Checks after each that nobody holds more than was made. The failure, if so.
  std::optional<Failure> Run(int64_t ticks);
  // Until all that run are in the views of all their segments, at rest.
  std::optional<Failure> Settle();
  // All that run hold the same.
  std::optional<Failure> CheckReplicas() const;

  double made(uint16_t node, int chunk) const { return nodes_[node].made[chunk]; }
  float lane(uint16_t node, int chunk, uint16_t of) const {
    return nodes_[node].weights[static_cast<size_t>(chunk * stride_ + of)];
  }
  // Times that an exchange of the node had to begin anew, or that it crashed.
  uint64_t lives_lost(uint16_t node) const;
  const Exchange& exchange(uint16_t node, size_t segment) const;
  std::string Describe() const;

 private:
  // One end of a segment.
  struct End {
    size_t segment = 0;
    bool is_top = false;
    std::vector<float> base, pending;
    std::unique_ptr<ChunkExecutor> executor;
    std::unique_ptr<Exchange> exchange;
    uint64_t told = 0, others = 0, told_merges = 0;
  };
  struct Node {
    std::vector<float> weights;
    std::vector<End> ends;
    std::vector<double> made;
    uint32_t incarnation = 0;
    uint64_t steps = 0, crashes = 0, resets_before = 0;
    int64_t frozen_until = 0;
    bool begun = false;
  };

  bool InSync(const Node& node) const;
  void Step(uint16_t id);
  void Count(Node* node);
  void Solve(uint16_t id);
  bool Settled() const;
  std::optional<Failure> Check() const;

  const TreeOptions options_;
  const int stride_;
  Rng rng_;
  std::vector<Network> networks_;  // by segment
  std::vector<Node> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
  bool training_ = true;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_TREE_H_
