// A solver's update, as work that is recorded behind the passes which compute its gradient.
#ifndef MILLRACE_SOLVER_ITERATION_UPDATE_H_
#define MILLRACE_SOLVER_ITERATION_UPDATE_H_

#include <cstdint>
#include <string>

#include "nn/net.h"
#include "solver/recordable_rule.h"
#include "solver/strategy.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

// Not thread-safe. What is passed by pointer outlives this object.
class IterationUpdate {
 public:
  // `rule`: null if another solver updates the weights.
  IterationUpdate(BuiltNet* net, Strategy* strategy, UpdateRule* rule);

  // Why the update cannot be recorded with the passes; "" if it can. Else nothing below is called.
  const std::string& why_not() const { return why_not_; }
  // Distinguishes all objects of this class in the process: recorded work of another one is not
  // used.
  uint64_t number() const { return number_; }

  // The rate of the next update.
  void set_rate(float rate) { rate_ = rate; }
  // Before each update: enqueues what differs from the last one.
  void Prepare() { rule_->PrepareUpdate(rate_, strategy_->look_ahead()); }
  // Enqueues the update's kernels.
  void Enqueue();
  WriteOrder& order() { return strategy_->order(); }
  // The update has been enqueued.
  void Enqueued() { strategy_->Enqueued(); }

 private:
  // Sets guard_. Returns why that is not possible, or "".
  std::string FindLosses();

  BuiltNet& net_;
  float* const weights_;
  UpdateBehindPasses* strategy_ = nullptr;
  RecordableRule* const rule_;
  const uint64_t number_;
  std::string why_not_;
  LossGuard guard_;
  float rate_ = 0;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_ITERATION_UPDATE_H_
