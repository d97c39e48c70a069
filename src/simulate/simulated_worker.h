// One worker of a simulation: a solver on weights of its own, and its end of the exchange.
#ifndef MILLRACE_SIMULATE_SIMULATED_WORKER_H_
#define MILLRACE_SIMULATE_SIMULATED_WORKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/data_service.h"
#include "exchange/kernels/executor_registry.h"
#include "exchange/protocol/exchange.h"
#include "solver/solver.h"
#include "solver/strategy.h"

namespace millrace::inline simulate {

// The iterations of all workers.
struct SharedSchedule {
  int64_t claimed = 0;
};

// Reads weights that were copied when the iteration began, and keeps its gradient until the
// iteration ends.
class DeferredStrategy : public Strategy {
 public:
  // `schedule` outlives this object. `together`: other workers train as well.
  DeferredStrategy(int64_t size, SharedSchedule* schedule, bool together)
      : schedule_(*schedule), together_(together), read_(size) {}

  float* weights() override { return read_.data(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  void Complete() override {}

  // Applies the update of the last Compute to `weights`.
  void Apply(float* weights);

 private:
  SharedSchedule& schedule_;
  const bool together_;
  std::vector<float> read_, gradients_;
  float rate_ = 0;
  UpdateRule* rule_ = nullptr;
};

struct WorkerConfig {
  uint16_t index = 0;
  int workers = 1;
  ExchangeConfig exchange;
  MergeRuleConfig rule;
  int64_t chunk_floats = 0;
};

// Construct and call Compute in the worker's own thread. All else may be called from another, but
// not at the same time.
class SimulatedWorker {
 public:
  // References outlive the worker. Throws Error as Solver's constructor and Exchange's do.
  SimulatedWorker(const SolverConfig& config, const LrPolicy& policy, const WorkerConfig& worker,
                  SharedSchedule* schedule);

  // Fills the weights as the net description says. In the worker's own thread.
  void FillWeights();

  // Begins an iteration: claims its number and copies the weights that it reads. None once the
  // schedule has been handed out.
  std::optional<int64_t> Begin();
  // Computes its gradient.
  StepResult Compute(int64_t iteration) { return solver_.Compute(iteration); }
  // Ends it: changes the weights, and tells the exchange.
  void End();

  BuiltNet& net() { return solver_.net(); }
  std::vector<float>& weights() { return weights_; }
  Exchange& exchange() { return *exchange_; }
  // Iterations that this worker has completed.
  uint64_t iterations() const { return iterations_; }

 private:
  // Values of a layer's own arrays that are not learned (statistics), which it changes itself.
  struct OwnArray {
    int64_t offset, count;
  };

  DataService data_;
  std::unique_ptr<BuiltNet> made_;  // the solver's, until it takes it
  std::vector<float> weights_, base_, pending_, rule_state_;
  DeferredStrategy strategy_;
  Solver solver_;
  std::vector<OwnArray> own_arrays_;
  std::vector<float> own_before_;
  std::unique_ptr<ChunkExecutor> executor_;
  std::unique_ptr<Exchange> exchange_;
  uint64_t iterations_ = 0;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATED_WORKER_H_
