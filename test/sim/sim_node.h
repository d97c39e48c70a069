// A simulated node: an exchange, its memory, and a solver that makes progress in
// whole tokens, so that every token can be accounted for.
//
// Every chunk has two floats, lanes, for each node: for what its solver adds when it may train,
// and for what it writes when it may not. A node's solver adds only to its own lanes. What a lane
// holds anywhere is then the sum of those diffs of that node which were merged: exact in
// float32 as long as all are integers.
#ifndef MILLRACE_TEST_SIM_SIM_NODE_H_
#define MILLRACE_TEST_SIM_SIM_NODE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "test/sim/scenario.h"
#include "test/support/exchange_node.h"

namespace millrace::sim {

using test::kTickNs;

// A property that does not hold.
struct Failure {
  std::string property;
  std::string detail;
};

// A node's settings: times that fit ticks.
ExchangeConfig ConfigOf(const Scenario& scenario, uint16_t id, uint32_t incarnation);

class SimNode {
 public:
  SimNode(const Scenario& scenario, uint16_t id);

  void Start();
  // With a smaller incarnation than ever, as if the clock that gives it had gone back.
  void StartWithClockBack();
  void Crash();

  bool running() const { return node_.exchange != nullptr; }
  bool frozen(int64_t tick) const { return tick < frozen_until_; }
  void FreezeUntil(int64_t tick) { frozen_until_ = tick; }
  bool leaving() const { return leaving_; }
  void Leave();
  // Training has ended.
  void Flush();
  bool flushed() const { return flushed_; }

  Exchange& exchange() { return *node_.exchange; }
  const Exchange& exchange() const { return *node_.exchange; }
  uint16_t id() const { return id_; }
  // Every other node works as if its replica lay on a device: its exchange goes on while the
  // executor is still at work, and takes frames in pieces.
  bool is_async() const { return id_ % 2 == 1; }
  // The frames stay until the next Send.
  void Receive(std::span<const std::span<const std::byte>> frames, int64_t now);
  // One step of its solver, if it may train. If it may not any more, its solver may write all the
  // same: one that has not noticed yet. Some steps are interrupted between their load and their
  // store, which waits until the exchange has sent and received once more.
  void Train();
  // Notices the end and the beginning of lives; to be called after every exchange.
  // Checks what holds of one node at any time.
  bool Check(const std::vector<const SimNode*>& all, Failure* failure);

  float lane(int chunk, uint16_t node) const { return node_.weights[chunk * stride_ + node]; }
  const std::vector<float>& weights() const { return node_.weights; }
  // What the solver of `node` wrote while it might not train.
  float wild_lane(int chunk, uint16_t node) const {
    return node_.weights[chunk * stride_ + scenario_.nodes + node];
  }
  double made_wild(int chunk) const { return made_wild_[chunk]; }
  // Tokens added to a chunk in all lives.
  double made(int chunk) const { return ended_[chunk] + made_[chunk]; }
  uint64_t steps() const { return all_steps_; }
  uint64_t wild_steps() const { return wild_steps_; }
  uint64_t lives_lost() const { return lives_lost_; }  // by crashes and resets
  bool has_left() const { return has_left_; }          // ever
  // Whether neither codec nor damping rounds; where they do, lanes are exact only in the end.
  bool exact() const;

 private:
  void Begin(uint32_t incarnation);
  void EndLife();
  void BeginStore();
  void FinishStore();
  bool CheckOwn(Failure* failure);
  bool CheckOthers(const std::vector<const SimNode*>& all, Failure* failure);

  const Scenario& scenario_;
  const uint16_t id_;
  const int stride_;
  Rng rng_, interruptions_;
  test::ExchangeNode node_;
  std::optional<RangeLock::Shared> holder_;  // its solver's
  // Of an interrupted step.
  struct Store {
    int chunk;
    std::vector<float> values;
  };
  std::optional<Store> store_;
  // Those that the next start adds to, and the next one with the clock back subtracts from.
  uint32_t newest_incarnation_ = 1'000'000, oldest_incarnation_ = 1'000'000;
  uint64_t all_steps_ = 0, wild_steps_ = 0, resets_ = 0, lives_lost_ = 0;
  int64_t frozen_until_ = 0;
  bool leaving_ = false, flushed_ = false;
  bool has_trained_ = false;  // since it was started; its solver runs from then on
  bool has_left_ = false;
  bool synced_ = false;               // in this life; then origin_ and last_ hold
  std::vector<double> made_, ended_;  // by chunk: in this life, in earlier ones
  std::vector<double> made_wild_;     // by chunk
  std::vector<float> origin_;         // by chunk: the own lane when this life began to train
  std::vector<float> last_;           // the weights when they were looked at last
};

}  // namespace millrace::sim

#endif  // MILLRACE_TEST_SIM_SIM_NODE_H_
