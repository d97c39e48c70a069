// What a solver and its strategy need beyond Strategy if all solvers of a run step together: each
// computes gradients of its own batches with the same weights, which then change once; or on
// weights of its own, and all merge theirs after the same iterations.
#ifndef MILLRACE_SOLVER_SYNCHRONOUS_STEP_H_
#define MILLRACE_SOLVER_SYNCHRONOUS_STEP_H_

#include <cstdint>
#include <exception>

#include "base/error.h"
#include "collective/collective.h"

namespace millrace::inline solver {

// The failure of a solver that others step with. The message names the solver.
class StepFailure : public Error {
 public:
  using Error::Error;
};

// One instance belongs to one solver, whose thread calls it.
class SynchronousStep {
 public:
  virtual ~SynchronousStep() = default;

  // The number of this solver among all solvers of the run, from 0 to solvers() - 1.
  virtual int index() const = 0;
  virtual int solvers() const = 0;
  // The number of this solver in its process, by which its net takes turns at batches.
  virtual int index_in_process() const = 0;
  // Whether this solver acts for all solvers of its process: it updates their weights, tests, saves
  // and reports. The others keep no history.
  virtual bool leads_process() const = 0;
  // Whether this solver updates weights, and needs the history of an update rule.
  virtual bool updates() const { return leads_process(); }
  // The number of the history in a snapshot with which this solver continues.
  virtual int history() const { return index_in_process(); }
  // Whether the run's weights hold all progress of the iterations that this solver has completed.
  virtual bool merged() const { return true; }
  // Waits until all solvers of this process have called it. Called by all of them after the same
  // iteration. Throws the error of a solver of this process that has failed.
  virtual void Meet() {}
  // Sums of layers over the batches of all solvers.
  virtual Collective& statistics() = 0;

  // Whether OnGradients does anything.
  virtual bool sums_gradients() const { return true; }
  // In the last backward pass of an iteration: the elements of `gradients` from `begin` on are
  // complete. The strategy may change these from now on. The last call of an iteration has `begin`
  // 0.
  virtual void OnGradients(float* gradients, int64_t begin) = 0;
  // This solver's loss in the iteration. Called before Strategy::Update.
  virtual void SetLoss(float loss) = 0;
  // The mean over all solvers, or this solver's loss if the iteration does not make them wait for
  // each other. Valid after Strategy::Update.
  virtual float loss() const = 0;

  // This solver has failed or leaves early: every wait of the process's other solvers for it throws
  // `error`. Later calls have no effect.
  virtual void Fail(std::exception_ptr error) = 0;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SYNCHRONOUS_STEP_H_
