// How the solvers of a run share weights. A solver computes gradients (solver.h); its strategy
// decides which iteration it computes, which weights its net reads, and how a gradient changes
// them. The strategies are in strategy/, by name in strategy_registry.h.
#ifndef MILLRACE_SOLVER_STRATEGY_H_
#define MILLRACE_SOLVER_STRATEGY_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "millrace/device.h"
#include "proto/run_state.pb.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

class SynchronousStep;

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
  // of its merge rule (StrategyEntry::rule_with_state). Called between iterations.
  virtual void ExportState(SolverPart* part) const { (void)part; }
  // What the solver needs in addition if all solvers step together; null if they do not.
  virtual SynchronousStep* synchronous() { return nullptr; }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_STRATEGY_H_
