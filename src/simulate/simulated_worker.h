// One worker of a simulation: a solver on weights of its own, and its end of the exchange, if there
// is one.
#ifndef MILLRACE_SIMULATE_SIMULATED_WORKER_H_
#define MILLRACE_SIMULATE_SIMULATED_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/data_service.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/protocol/exchange.h"
#include "simulate/simulated_strategy.h"
#include "solver/solver.h"

namespace millrace::inline simulate {

struct WorkerExchange {
  ExchangeConfig config;
  MergeRuleConfig rule;
  int64_t chunk_floats = 0;
};

struct WorkerConfig {
  uint16_t index = 0;
  int workers = 1;
  std::optional<WorkerExchange> exchange = {};
  std::vector<caffe::StreamPosition> streams = {};  // where its data go on; empty: at the start
  std::function<std::unique_ptr<SimulatedStrategy>(WorkerWeights weights)> make_strategy;
};

// Construct and call FillWeights, LoadModel and Compute in the worker's own thread. All else may be
// called from another, but not at the same time.
class SimulatedWorker {
 public:
  // `config` outlives the worker. Throws Error as Solver's constructor and Exchange's do.
  SimulatedWorker(const SolverConfig& config, const LrPolicy& policy, const WorkerConfig& worker);

  // Fills the weights as the net description says.
  void FillWeights();
  // Loads them from a .caffemodel. Throws Error naming it.
  void LoadModel(const std::string& path);

  // Multiplies the learning rate of further iterations; see RateScale.
  void SetRateFactor(float factor) { rate_scale_.Set(factor); }
  // Begins an iteration: claims its number and reads the weights. None once the schedule has been
  // handed out.
  std::optional<int64_t> Begin();
  // Computes its gradient.
  StepResult Compute(int64_t iteration) { return solver_.Compute(iteration); }
  // Ends it: changes the weights, and tells the exchange. `now` counts it.
  void End(const MergeTime& now);

  // Between iterations of a run: begins a new exchange, with these weights on all workers.
  void RestartExchange();
  // For a snapshot: the history of its update rule, and its part of the state, with the positions
  // of its data.
  History ExportHistory() const { return solver_.ExportHistory(); }
  SolverPart ExportPart() const;
  // Throws Error if the history that `point` holds of this worker does not fit.
  void RestoreHistory(const ResumePoint& point) { solver_.Restore(point, index_); }

  BuiltNet& net() { return solver_.net(); }
  std::vector<float>& weights() { return weights_; }
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& base() const { return base_; }  // ReplicaArrays::base
  SimulatedStrategy& strategy() { return *strategy_; }
  // REQUIRES: the worker has one.
  Exchange& exchange() { return *exchange_; }
  // The state of the merge rule: float k of weight i is element k * size + i. Empty: it has none.
  std::vector<float>& rule_state() { return rule_state_; }

 private:
  const int index_;
  const std::optional<WorkerExchange> setup_;  // of the exchange
  DataService data_;
  std::unique_ptr<BuiltNet> made_;  // the solver's, until it takes it
  std::vector<float> weights_, base_, pending_, rule_state_;
  std::unique_ptr<SimulatedStrategy> strategy_;
  RateScale rate_scale_;
  LrPolicy policy_;
  Solver solver_;
  std::unique_ptr<ChunkExecutor> executor_;
  std::unique_ptr<Exchange> exchange_;  // null: none
  uint64_t iterations_ = 0;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATED_WORKER_H_
