// A simulated node: an exchange, its memory, and a solver that makes progress in whole tokens,
// so that tests can account for every token.
//
// Every chunk has two floats (lanes) per node: one for what the node's solver adds while it may
// train, one for what it writes while it may not. A solver writes only its own node's lanes. On
// any node a lane therefore holds the sum of the merged diffs of one node. The sum is exact in
// float32 as long as all values are integers.
#ifndef MILLRACE_TEST_SIM_SIM_NODE_H_
#define MILLRACE_TEST_SIM_SIM_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "test/sim/exchange_node.h"
#include "test/sim/network.h"
#include "test/sim/scenario.h"

namespace millrace::sim {

// A violated property.
struct Failure {
  std::string property;
  std::string detail;
};

// Settings of a node, with times that suit ticks.
ExchangeConfig ConfigOf(const Scenario& scenario, uint16_t id, uint32_t incarnation);

class SimNode {
 public:
  SimNode(const Scenario& scenario, uint16_t id);

  void Start();
  // Starts with a smaller incarnation than ever before, as after a backward step of the clock.
  void StartWithClockBack();
  void Crash();

  bool running() const { return node_.exchange != nullptr; }
  bool frozen(int64_t tick) const { return tick < frozen_until_; }
  void FreezeUntil(int64_t tick) { frozen_until_ = tick; }
  bool leaving() const { return leaving_; }
  void Leave();
  // Ends training.
  void Flush();
  bool flushed() const { return flushed_; }

  Exchange& exchange() { return *node_.exchange; }
  const Exchange& exchange() const { return *node_.exchange; }
  uint16_t id() const { return id_; }
  // Every second node emulates a replica on a device: its exchange continues while the executor
  // is still at work, and it receives frames in several calls.
  bool is_async() const { return id_ % 2 == 1; }
  // `frames` have to stay valid until the next Send.
  void Receive(const std::vector<Network::Arrival>& frames, int64_t now);
  // Runs one solver step if the solver may train. Otherwise the solver may still write, as one
  // that has not noticed yet. Some steps are interrupted between load and store; the store then
  // waits until the exchange has sent and received once more.
  void Train(int64_t tick);
  // Detects the start and end of incarnations and checks the invariants of one node. Call after
  // every exchange. Returns false and sets `failure` if an invariant is violated.
  bool Check(const std::vector<const SimNode*>& all, Failure* failure);

  float lane(int chunk, uint16_t node) const { return node_.weights[chunk * stride_ + node]; }
  const std::vector<float>& weights() const { return node_.weights; }
  // Progress that the solver of `node` made while it must not train.
  float wild_lane(int chunk, uint16_t node) const {
    return node_.weights[chunk * stride_ + scenario_.nodes + node];
  }
  // Of its own progress in all incarnations, the part that damping has dropped at their ends.
  double dropped(int chunk) const {
    return ended_drops_[chunk] + (synced_ ? node_.dropped[chunk * stride_ + id_] : 0);
  }
  double made_wild(int chunk) const { return made_wild_[chunk]; }
  // Tokens added to a chunk in all incarnations.
  double made(int chunk) const { return ended_[chunk] + made_[chunk]; }
  uint64_t steps() const { return all_steps_; }
  uint64_t wild_steps() const { return wild_steps_; }
  // Iterations with which a run begins at this node.
  uint64_t first_iterations() const { return first_iterations_; }
  uint64_t incarnations_lost() const {
    return incarnations_lost_;
  }                                            // incarnations lost by crashes and resets
  bool has_left() const { return has_left_; }  // in any incarnation
  // Whether it was excluded while it left, in any incarnation.
  bool was_excluded() const { return was_excluded_; }
  // Returns false if a codec or damping rounds; lanes are then exact only at the end.
  bool exact() const;
  // By how much another node's lane may exceed what that node made, `made`, where lanes are not
  // exact.
  double slack(double made) const {
    return 4 * static_cast<double>(scenario_.magnitude) + 0.05 * made;
  }
  // By how much a lane of the chunk may differ because positions are rounded: a step of the codec.
  double rounding(int chunk) const;

 private:
  // Weight of one token of this node.
  float token() const { return is_async() ? static_cast<float>(scenario_.magnitude) : 1.0f; }
  void Begin(uint32_t incarnation);
  ChunkTable& Table();
  // Raises the numbers of positions. REQUIRES: the node has begun the run, and no other node has
  // received a position.
  void RaiseNumbers();
  void EndIncarnation();
  void BeginStore();
  void FinishStore();
  bool CheckOwn(Failure* failure);
  bool CheckOthers(const std::vector<const SimNode*>& all, Failure* failure);

  const Scenario& scenario_;
  const uint16_t id_;
  const int stride_;
  Rng rng_, interruptions_;
  ExchangeNode node_;
  std::optional<RangeLock::Shared> holder_;  // of the solver
  // The pending store of an interrupted step.
  struct Store {
    int chunk;
    std::vector<float> values;
  };
  std::optional<Store> store_;
  // The next Start adds to the first; the next StartWithClockBack subtracts from the second.
  uint32_t newest_incarnation_ = 1'000'000, oldest_incarnation_ = 1'000'000;
  uint64_t first_iterations_ = 0;
  uint64_t all_steps_ = 0, wild_steps_ = 0, resets_ = 0, incarnations_lost_ = 0;
  int64_t frozen_until_ = 0;
  bool leaving_ = false, flushed_ = false, was_excluded_ = false;
  bool has_trained_ = false;  // since it was started; from then on its solver runs
  bool has_left_ = false;
  bool synced_ = false;               // in this incarnation; origin_ and last_ are then valid
  std::vector<double> made_, ended_;  // by chunk: in this incarnation, in earlier ones
  std::vector<double> ended_drops_;   // by chunk: dropped in earlier incarnations
  std::vector<double> made_wild_;     // by chunk
  std::vector<float> origin_;         // by chunk: own lane when this incarnation began to train
  std::vector<float> last_;           // the weights at the previous check
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SIM_NODE_H_
