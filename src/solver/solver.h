// One solver: a train net, a learning-rate schedule, and an update rule with its history. Its
// strategy gives it the weights and the iterations (strategy.h).
#ifndef MILLRACE_SOLVER_SOLVER_H_
#define MILLRACE_SOLVER_SOLVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "nn/net.h"
#include "solver/iteration_update.h"
#include "solver/lr_policy.h"
#include "solver/snapshot.h"
#include "solver/solver_config.h"
#include "solver/strategy.h"
#include "solver/synchronous_step.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

class PassGraphs;

// A loss or one of its inputs is NaN or infinite.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

// Options of the train net of solver `consumer` of this process.
BuiltNetOptions TrainNetOptions(const SolverConfig& config, DataService* data,
                                Device* device = &HostDevice(), int consumer = 0);

// Throws Error, with file and line, if the solver file's rule has no code for the device of
// `queue`.
void CheckRuleFor(const SolverConfig& config, Queue* queue);

// What one iteration did.
struct StepResult {
  int64_t iteration = 0;  // its number, from 0, over all solvers of the run
  // The mean over iter_size passes, before the update; and over all solvers that step together.
  float loss = 0;
  float rate = 0;           // learning rate of the update
  std::string notice = "";  // LrPolicy::Notice
};

// Not thread-safe: one thread constructs a solver and calls it.
class Solver {
 public:
  // `net`: an existing train net on the strategy's device, or null to create one that reads `data`
  // as its only train net.
  // Everything that is passed by pointer or reference outlives the solver. Throws Error for a net
  // that cannot be built.
  Solver(const SolverConfig& config, const LrPolicy& policy, DataService* data, Strategy* strategy,
         std::unique_ptr<BuiltNet> net = nullptr);
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Continues with the history that `point` holds for solver `index`, if it holds one. Throws Error
  // if it does not fit.
  void Restore(const ResumePoint& point, int index) {
    if (rule_) RestoreHistory(point, index, rule_.get());
  }

  // Computes one iteration of the run and applies its update; none once the schedule of max_iter
  // iterations has been handed out. May block while its data are read. Throws Error for bad data,
  // or NonFiniteLoss, naming the layer, for a loss that is not finite; the weights are then
  // unchanged.
  std::optional<StepResult> Step();
  // The two parts of Step, for callers that act between them: the number of the next iteration, and
  // its computation.
  std::optional<int64_t> Claim() { return strategy_.Claim(config_.param.max_iter()); }
  StepResult Compute(int64_t iteration);
  // Applies the gradients that the net holds at the rate of `iteration`, without counting it. On
  // the host, with a strategy whose solvers do not step together.
  void Update(int64_t iteration) {
    strategy_.Update(policy_.Rate(iteration), net_->gradients(), rule_.get());
  }
  // Compute calls it between the passes and the update, on the host.
  void OnGradients(std::function<void()> call) { on_gradients_ = std::move(call); }

  // How iterations on a device are recorded; null: not at all, or none has begun.
  const PassGraphs* graphs() const { return graphs_; }
  BuiltNet& net() { return *net_; }
  const BuiltNet& net() const { return *net_; }
  // The history of the update rule in the file format; empty if another solver has it.
  History ExportHistory() const;
  // Ends the solver: only destruction is allowed afterwards.
  std::unique_ptr<BuiltNet> ReleaseNet() {
    update_.reset();
    rule_.reset();  // it works on the net's queue
    net_->LockWith(nullptr);
    net_->SynchronizeWith(nullptr);
    return std::move(net_);
  }

 private:
  struct Gradients {
    float loss = 0;
    bool updated = false;  // the update has been enqueued, too
  };
  Gradients ComputeGradients(int64_t iteration);

  const SolverConfig& config_;
  const LrPolicy& policy_;
  Strategy& strategy_;
  std::unique_ptr<BuiltNet> net_;
  SynchronousStep* const step_;       // of strategy_; null: other solvers do not wait for this one
  std::unique_ptr<UpdateRule> rule_;  // null: another solver updates the weights
  std::optional<IterationUpdate> update_;  // on a device
  PassGraphs* graphs_ = nullptr;           // of net_
  std::function<void()> on_gradients_;     // may be empty
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SOLVER_H_
