// Nodes joined as a tree by several segments. A node in two segments has one weight array and
// one exchange per segment. Solvers add whole tokens, each node to its own lanes, as in
// sim_node.h.
#ifndef MILLRACE_TEST_SIM_TREE_CLUSTER_H_
#define MILLRACE_TEST_SIM_TREE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "test/sim/exchange_node.h"
#include "test/sim/network.h"
#include "test/sim/shape.h"
#include "test/sim/sim_node.h"

namespace millrace::sim {

struct TreeOptions {
  Shape shape;
  uint64_t seed = 0;
  int chunks = 4;
  LinkFaults faults = {};
  double busy = 0.6;  // probability per tick that a solver makes a step
  bool damping = false;
  std::vector<bool> damps = {};  // by segment; `damping` if there is none
  double throttled = 0;          // share of the time in which a node sends only what it must
  std::vector<MergeRuleConfig> rules = {};  // by segment; additive if there is none
  std::vector<Codec> position_codecs = {};  // by segment; kFloat32 if there is none
  std::vector<int64_t> chunk_floats = {};   // by segment; a chunk of tokens if there is none
  double pauses = 0;  // share of the time in which a node's solver makes no step
  // Share of the ticks in which what a segment's thread has merged is not reported to the others
  // before they send.
  double late_reports = 0;
  // Makes the steps of a node's solver in one tick, and returns their number; null: tokens.
  std::function<uint64_t(uint16_t node, std::vector<float>& weights)> solver = {};
};

class TreeCluster {
 public:
  explicit TreeCluster(const TreeOptions& options);

  int64_t tick() const { return tick_; }
  bool running(uint16_t node) const { return !nodes_[node].ends.empty(); }
  void Start(uint16_t node);
  void Crash(uint16_t node);
  void FreezeUntil(uint16_t node, int64_t tick) { nodes_[node].frozen_until = tick; }
  // Starts or stops the solvers' progress.
  void Train(bool train) { training_ = train; }
  // Ends training: nodes send or drop the progress that they hold back.
  void Flush() { flushed_ = true; }
  void Heal();

  // Checks after each tick that no replica holds more tokens than were made, or fewer than none
  // unless a relay of a damped tree lost an incarnation. Returns the failure, if any.
  std::optional<Failure> Run(int64_t ticks);
  // Runs until every running node is in the views of all its segments and quiescent. Returns the
  // failure, if any.
  std::optional<Failure> Settle();
  // Checks that all running nodes hold equal weights.
  std::optional<Failure> CheckReplicas() const;

  double made(uint16_t node, int chunk) const { return nodes_[node].made[chunk]; }
  // Of the progress of node `of`, the part that damping has dropped on all running nodes.
  double dropped(int chunk, uint16_t of) const;
  const std::vector<float>& weights(uint16_t node) const { return nodes_[node].weights; }
  float lane(uint16_t node, int chunk, uint16_t of) const {
    return nodes_[node].weights[static_cast<size_t>(chunk * stride_ + of)];
  }
  // Number of crashes of the node and of resets of its exchanges.
  uint64_t incarnations_lost(uint16_t node) const;
  const Exchange& exchange(uint16_t node, size_t segment) const;
  std::string Describe() const;

 private:
  int64_t ChunkFloats(size_t segment) const {
    return segment < options_.chunk_floats.size() ? options_.chunk_floats[segment] : stride_;
  }
  bool DampingOf(size_t segment) const {
    return segment < options_.damps.size() ? options_.damps[segment] : options_.damping;
  }
  MergeRuleConfig RuleOf(size_t segment) const {
    return segment < options_.rules.size() ? options_.rules[segment] : MergeRuleConfig();
  }

  struct End : ExchangeEnd {
    size_t segment = 0;
    bool is_top = false, synced = false;
    uint64_t resets = 0;
    uint64_t reported = 0, others = 0, reported_merges = 0;
  };
  struct Node {
    std::vector<float> weights;
    std::vector<End> ends;
    std::vector<double> made;
    uint32_t incarnation = 0;
    size_t segments = 0;  // above 1: a relay
    uint64_t steps = 0, crashes = 0, resets_before = 0;
    int64_t frozen_until = 0;
    bool begun = false;
  };

  bool InSync(const Node& node) const;
  bool AnyRelayLostAnIncarnation() const;
  void Step(uint16_t id);
  void Count(Node* node);
  void Solve(uint16_t id);
  void Send(Node* node, End* end);
  bool Settled() const;
  std::optional<Failure> Check() const;

  const TreeOptions options_;
  const int stride_;
  Rng rng_;
  std::vector<Network> networks_;  // by segment
  std::vector<Node> nodes_;
  std::vector<PostedFrame> room_;
  int64_t tick_ = 0;
  bool training_ = true, flushed_ = false;
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_TREE_CLUSTER_H_
