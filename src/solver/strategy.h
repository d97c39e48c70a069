// How the solvers of a run share weights. A solver computes gradients (solver.h); its strategy
// decides which iteration it computes, which weights its net reads, and how a gradient changes
// them. The strategies are in strategy/, by name in strategy_plan.h.
#ifndef MILLRACE_SOLVER_STRATEGY_H_
#define MILLRACE_SOLVER_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "device/write_order.h"
#include "millrace/device.h"
#include "proto/run_state.pb.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

class SynchronousStep;

// What a strategy adds to an update that is enqueued with the passes which compute its gradient.
class UpdateBehindPasses {
 public:
  virtual ~UpdateBehindPasses() = default;
  // The order of all changes of the strategy's weights.
  virtual WriteOrder& order() = 0;
  // `look_ahead` of UpdateRule::Apply, for the claimed iteration.
  virtual float look_ahead() const = 0;
  // Enqueues what Update does to gradients before the rule is applied, the same work each time, and
  // returns those to apply.
  virtual const float* Corrected(const float* gradients) { return gradients; }
  // The update of the claimed iteration has been enqueued: does the rest of Update.
  virtual void Enqueued() {}
};

// One instance belongs to one solver, whose thread calls it.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The device on which the solver computes.
  virtual Device& device() const { return HostDevice(); }
  // The weights that the solver's net reads, in the order of its layout and in the memory of its
  // device. Constant; valid during the lifetime of this object.
  virtual float* weights() = 0;
  // Prepares `rule` for updates of weights(). Called once, before the first iteration.
  virtual void Prepare(UpdateRule* rule) { (void)rule; }
  // The lock that layers hold while they write weights() themselves (Net::LockWith); null: none.
  virtual UpdateLock* lock() { return nullptr; }
  // The iteration that the solver computes next, counted over all solvers of the run; none once the
  // schedule of `limit` iterations has been handed out.
  virtual std::optional<int64_t> Claim(int64_t limit) = 0;
  // Applies the gradient of the claimed iteration by `rule` with learning rate `rate`. `gradients`
  // is laid out like the weights and holds the sum over iter_size batches, once the work on the
  // rule's queue that computes it has completed.
  virtual void Update(float rate, const float* gradients, UpdateRule* rule) = 0;
  // On a device: in place of Update, the solver may enqueue the update with the passes, before the
  // gradient is there and before other solvers are asked for. Null, and `*why`, if it may not.
  virtual UpdateBehindPasses* behind_passes(std::string* why) {
    *why = "the strategy needs the gradient before";
    return nullptr;
  }
  // Calls write(), which makes or enqueues on `queue` further changes of weights(): those of layers
  // that keep statistics there. On a device they have a place in the order of all changes, as
  // updates have.
  virtual void Write(Queue* queue, const std::function<void()>& write) {
    (void)queue;
    write();
  }
  // Counts the claimed iteration as completed.
  virtual void Complete() = 0;
  // Brings all progress of this solver into the run's weights. Called between iterations: before
  // this solver opens a snapshot of the run, and after its last iteration.
  virtual void Flush() {}
  // Brings the run's weights up to date for a test, as far as that leaves the solvers' own weights
  // as they are. Called between iterations.
  virtual void Publish() {}
  // Adds what a snapshot holds of this solver besides the run's weights and its history: the state
  // of its merge rule (StrategyPlan::rule_with_state). Called between iterations.
  virtual void ExportState(SolverPart* part) const { (void)part; }
  // What the solver needs in addition if all solvers step together; null if they do not.
  virtual SynchronousStep* synchronous() { return nullptr; }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_STRATEGY_H_
