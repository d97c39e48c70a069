// The strategies of this program, by name: SolverParameter.strategy.type chooses one. To add one,
// write a class (strategy.h) and, in one file of src/strategy/, a
//
//   const RegisterStrategy mine({.part = {.name = "mine", .parameters = {...}}, .make = MakeMine});
#ifndef MILLRACE_SOLVER_STRATEGY_REGISTRY_H_
#define MILLRACE_SOLVER_STRATEGY_REGISTRY_H_

#include <functional>
#include <memory>
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
  PartValues parameters;            // of the strategy: checked and complete
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
  // Whether other machines train these weights at present; null: none does.
  std::function<bool()> has_peers;
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

struct StrategyEntry {
  PartDescriptor part;
  // Checks strategy fields beyond the parameters; null: the strategy has neither sync_condition nor
  // merge_rule, which are then refused. Throws FieldError.
  std::function<void(const caffe::SolverParameter& param)> check = nullptr;
  // Called once per run, before its solvers start. State that the solvers of a process share lives
  // in the result, which begins with that of context.state. Throws FieldError for what the strategy
  // cannot do in this run, and Error for a state that does not fit.
  std::function<StrategyMaker(const StrategyContext& context)> make;
  // Whether an iteration is one step of all solvers of all processes (synchronous_step.h).
  bool synchronous = false;
  // Whether links keep the replicas of devices close to the run's weights (cluster/device_link.h);
  // else the strategies bring the progress of replicas into these weights.
  bool links_devices = true;
  // Names the rule of these fields if snapshots hold its state; "": they hold none. Null: none.
  std::function<std::string(const caffe::SolverParameter& param)> rule_with_state = nullptr;
};

using StrategyRegistry = PartRegistry<StrategyEntry>;
StrategyRegistry& Strategies();

// The strategy that a solver file names. Throws FieldError.
StrategyRegistry::Choice ChooseStrategy(const caffe::StrategyParameter& strategy);

// Whether the strategy of `param`, which is checked, has links to the replicas of devices
// (StrategyEntry::links_devices).
bool LinksDevices(const caffe::SolverParameter& param);

// The rule of `param.strategy` whose state snapshots hold; "": none.
std::string RuleWithStateOf(const caffe::SolverParameter& param);

// Number of the `solvers` of a process that have a history of their own: one if they step together
// and do not merge weights.
int SolversWithHistory(const caffe::SolverParameter& param, int solvers);

// What a snapshot of a run says of its state: the rule, `solvers` and `weights`; empty if it holds
// none.
RunState StartRunState(const caffe::SolverParameter& param, int solvers, int64_t weights);

// Checks `param.strategy`. Throws FieldError.
void CheckStrategy(const caffe::SolverParameter& param);

// The strategies of a run: that of context.config, with its parameters. Throws Error, with file and
// line.
StrategyMaker MakeStrategies(StrategyContext context);

// Define one at namespace scope.
struct RegisterStrategy {
  explicit RegisterStrategy(StrategyEntry entry) { Strategies().Register(std::move(entry)); }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_STRATEGY_REGISTRY_H_
