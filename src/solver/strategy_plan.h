// What a run knows of its strategy (SolverParameter.strategy), and the strategies of this program
// by name. To add one, write a class (strategy.h), a plan that makes it (strategy/strategy_plans.h)
// and, in one file of src/strategy/, a
//
//   const RegisterStrategy mine({{.name = "mine", .parameters = {...}}, MakePlan<MinePlan>});
#ifndef MILLRACE_SOLVER_STRATEGY_PLAN_H_
#define MILLRACE_SOLVER_STRATEGY_PLAN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/part.h"
#include "collective/processes.h"
#include "solver/run_state.h"
#include "solver/solver_config.h"
#include "solver/strategy.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline solver {

// What a strategy gets of the run. All that it points to outlives the strategies.
struct StrategyContext {
  const SolverConfig* config = nullptr;
  WeightBuffer* weights = nullptr;  // the run's, filled; other processes may have joined them
  int solvers = 1;                  // of this process
  // The replica of a solver on a GPU, which exists as long as the run; null: the solver computes on
  // a CPU. Null function: all do.
  std::function<DeviceWeights*(int index)> replica_of;
  const Clock* clock = nullptr;
  bool in_cluster = false;
  bool weights_are_shared = false;  // other processes of this machine may join them
  // The processes that a launcher has started to train together; null: this one is alone. Only a
  // synchronous strategy gets any.
  Processes* processes = nullptr;
  // How far other machines that train these weights at present make solvers look ahead
  // (look_ahead.h); 0: there are none. Null: there are never any.
  std::function<float()> peers_look_ahead;
  // The state of the merge rule in the snapshot that the run continues; path "": it continues none,
  // or its own part of it is missing. Outlives the strategies.
  ContinuedState state;
  // Whether it is that of this process; else of another one of those that train together.
  bool state_is_own = true;
  // Whether the run has been stopped or has failed: a strategy whose solvers wait for each other
  // ends such waits. Thread-safe; null: never.
  std::function<bool()> stopped;

  // The replica of solver `index`; null: it computes on a CPU.
  DeviceWeights* ReplicaOf(int index) const { return replica_of ? replica_of(index) : nullptr; }
};

// Makes the strategy of solver `index` < solvers; called once for each, by the solver's own thread.
using StrategyMaker = std::function<std::unique_ptr<Strategy>(int index)>;

// Settings of a strategy whose iteration is one step of all solvers of all processes
// (synchronous_step.h).
struct SynchronousSettings {
  bool merges_weights = false;  // after several iterations; else solvers sum their gradients
  bool divides_batch = false;   // the batch sizes of the net file are those of all solvers together
  double peer_timeout = 60;     // seconds of silence after which another process counts as lost
};

// The strategy of a solver file, read and checked once, when the file is loaded. Immutable.
class StrategyPlan {
 public:
  StrategyPlan() = default;
  virtual ~StrategyPlan() = default;
  StrategyPlan(const StrategyPlan&) = delete;
  StrategyPlan& operator=(const StrategyPlan&) = delete;

  // Called once per run, before its solvers start. State that the solvers of a process share lives
  // in the result, which begins with that of context.state, if there is one. Throws FieldError for
  // what the strategy cannot do in this run, and Error for a state that does not fit.
  virtual StrategyMaker Make(const StrategyContext& context) const = 0;

  // Number of the `solvers` of a process that have a history of their own: one if they step
  // together and do not merge weights.
  int SolversWithHistory(int solvers) const;
  // What a snapshot of a run says of its state: the rule, `solvers` and `weights`; empty if it
  // holds none.
  RunState StartRunState(int solvers, int64_t weights) const;

  std::optional<SynchronousSettings> synchronous;  // none: solvers do not wait for each other
  // Whether links keep the replicas of devices close to the run's weights (cluster/device_link.h);
  // else the strategies bring the progress of replicas into these weights.
  bool links_devices = false;
  std::string rule_with_state;  // whose state snapshots hold; "": none
};

struct StrategyEntry {
  PartDescriptor part;
  // Reads the strategy of `param`; `values` are its parameters, checked and complete. Throws
  // FieldError.
  std::function<std::shared_ptr<const StrategyPlan>(const caffe::SolverParameter& param,
                                                    const PartValues& values)>
      plan;
};

// A StrategyEntry::plan: constructs a `Plan`.
template <typename Plan>
std::shared_ptr<const StrategyPlan> MakePlan(const caffe::SolverParameter& param,
                                             const PartValues& values) {
  return std::make_shared<const Plan>(param, values);
}

// The plan of the strategy that `param` names. Throws FieldError.
std::shared_ptr<const StrategyPlan> PlanStrategy(const caffe::SolverParameter& param);

// The strategies of a run: those of context.config->strategy. Throws Error, with file and line.
StrategyMaker MakeStrategies(const StrategyContext& context);

// Define one at namespace scope.
struct RegisterStrategy {
  explicit RegisterStrategy(StrategyEntry entry);
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_STRATEGY_PLAN_H_
