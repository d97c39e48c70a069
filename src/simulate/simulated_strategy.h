// Strategies of simulated workers. An iteration reads the worker's weights when it begins and
// changes them when it ends, in virtual time; its gradient is computed in between.
#ifndef MILLRACE_SIMULATE_SIMULATED_STRATEGY_H_
#define MILLRACE_SIMULATE_SIMULATED_STRATEGY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/thread_group.h"
#include "solver/run_state.h"
#include "solver/strategy.h"
#include "solver/synchronous_step.h"
#include "strategy/local_merger.h"

namespace millrace::inline nn {
class BuiltNet;
}
namespace millrace::inline simulate {

// The iterations of all workers.
struct SharedSchedule {
  int64_t claimed = 0;
  int64_t limit = INT64_MAX;  // no iteration from here on is claimed
};

// Begin, End and Flush are called in the thread that runs the simulation, all else in the worker's;
// never at the same time.
class SimulatedStrategy : public Strategy {
 public:
  // Training begins with the worker's weights.
  virtual void Start(const MergeTime& now) { (void)now; }
  // An iteration begins.
  virtual void Begin() = 0;
  // It ends; `now` counts it.
  virtual void End(const MergeTime& now) = 0;
  // Brings all progress into the worker's weights.
  virtual void Flush(const MergeTime& now) { (void)now; }
  // After Start: goes on with what ExportState has given after Flush. Throws Error if `stored` does
  // not fit.
  virtual void RestoreState(const StateReader& stored) { (void)stored; }
  // The schedule of a strategy that has one of its own; null: all workers share one.
  virtual SharedSchedule* own_schedule() { return nullptr; }
};

// Where a worker's weights are, and what a strategy needs to know of them.
struct WorkerWeights {
  float* data = nullptr;  // outlives the strategy
  int64_t size = 0;
  // Values of layers that are not learned (statistics), which layers change themselves.
  struct OwnArray {
    int64_t offset = 0, count = 0;
  };
  std::vector<OwnArray> own_arrays = {};
};
WorkerWeights WeightsOf(const BuiltNet& net, std::vector<float>* weights);

// Computes on a copy of the worker's weights, and keeps the gradient until the iteration ends.
class DeferredStrategy : public SimulatedStrategy {
 public:
  // `schedule` outlives this object. `look_ahead`: as of UpdateRule::Apply. `lambda`: of delay
  // compensation (delay_compensation.h), 0 for none; then `passes` is iter_size.
  DeferredStrategy(WorkerWeights weights, SharedSchedule* schedule, float look_ahead,
                   float lambda = 0, int passes = 1);

  float* weights() override { return read_.data(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  void Complete() override {}

  void Begin() override;
  void End(const MergeTime& now) override;

  // The gradient of the iteration that ends, which End applies.
  std::vector<float>& gradients() { return gradients_; }

 private:
  const WorkerWeights weights_;
  SharedSchedule& schedule_;
  const float look_ahead_;
  const float lambda_;
  const int passes_;
  std::vector<float> read_, gradients_;
  std::vector<float> own_before_;
  float rate_ = 0;
  UpdateRule* rule_ = nullptr;
};

// Trains on weights of its own, and merges them with the worker's.
class SimulatedLocal : public SimulatedStrategy {
 public:
  // `look_ahead`: as of UpdateRule::Apply, where progress is added.
  SimulatedLocal(const WorkerWeights& weights, SharedSchedule* schedule, MergerConfig config,
                 float look_ahead);

  float* weights() override { return merger_.weights(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  void Complete() override {}

  void Start(const MergeTime& now) override { merger_.Begin(now); }
  void Begin() override {}
  void End(const MergeTime& now) override;
  void Flush(const MergeTime& now) override { merger_.Flush(now); }
  void ExportState(SolverPart* part) const override { merger_.ExportState(part); }
  void RestoreState(const StateReader& stored) override { merger_.RestoreState(stored); }

 private:
  SharedSchedule& schedule_;
  const float look_ahead_;
  LocalMerger merger_;
  std::vector<float> gradients_;
  float rate_ = 0;
  UpdateRule* rule_ = nullptr;
};

// A worker whose iterations are those of all workers. The simulation sums what they compute.
class SimulatedSynchronous : public DeferredStrategy, public SynchronousStep {
 public:
  SimulatedSynchronous(WorkerWeights weights, int index, int workers);

  SynchronousStep* synchronous() override { return this; }
  SharedSchedule* own_schedule() override { return &own_; }

  int index() const override { return index_; }
  int solvers() const override { return workers_; }
  int index_in_process() const override { return 0; }
  bool leads_process() const override { return true; }
  Collective& statistics() override { return alone_.member(0); }
  void OnGradients(float*, int64_t) override {}
  void SetLoss(float loss) override { loss_ = loss; }
  float loss() const override { return loss_; }
  void Fail(std::exception_ptr) override {}

 private:
  const int index_, workers_;
  SharedSchedule own_;
  ThreadGroup alone_;
  float loss_ = 0;
};

}  // namespace millrace::inline simulate

#endif  // MILLRACE_SIMULATE_SIMULATED_STRATEGY_H_
