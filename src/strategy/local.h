// Strategy "local": a solver trains on weights of its own, in memory of its device, and merges them
// with the shared ones, in memory of the host, when a sync condition fires (local_merger.h).
#ifndef MILLRACE_STRATEGY_LOCAL_H_
#define MILLRACE_STRATEGY_LOCAL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "solver/strategy.h"
#include "strategy/local_merger.h"
#include "strategy/replica_copy.h"
#include "weights/device_weights.h"
#include "weights/weight_buffer.h"

namespace millrace::inline strategy {

struct LocalConfig : MergerConfig {
  LocalConfig() = default;
  explicit LocalConfig(MergerConfig merger) : MergerConfig(std::move(merger)) {}

  // Solvers that share the weights at least: those of this process.
  int solvers = 1;
  const Clock* clock = nullptr;  // outlives the strategy
  std::function<float()> peers;  // StrategyContext::peers_look_ahead
};

class LocalStrategy : public Strategy, private UpdateBehindPasses {
 public:
  // Registers a solver in the iteration clock of `shared`, and copies these weights. `replica`: of
  // a solver on a device, its own weights; null: the solver computes on the host. Both outlive this
  // object. Throws Error if the clock has no room for another solver, or if there is not enough
  // memory.
  LocalStrategy(WeightBuffer* shared, LocalConfig config, DeviceWeights* replica = nullptr);
  ~LocalStrategy() override;

  Device& device() const override { return replica_ ? replica_->device() : HostDevice(); }
  float* weights() override { return replica_ ? replica_->data() : merger_.weights(); }
  void Prepare(UpdateRule* rule) override {
    if (copy_) copy_->SetQueue(&rule->queue());
  }
  void Write(Queue* queue, const std::function<void()>& write) override;
  std::optional<int64_t> Claim(int64_t limit) override { return clock_.Claim(limit); }
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  UpdateBehindPasses* behind_passes(std::string* /*why*/) override { return this; }
  // Merges if it is time.
  void Complete() override;
  void Flush() override;
  void ExportState(SolverPart* part) const override { merger_.ExportState(part); }
  // Before the first iteration. Throws Error if `stored` does not fit.
  void RestoreState(const StateReader& stored) { merger_.RestoreState(stored); }

 private:
  // Calls work(begin, count) for all elements, under the lock of the shared weights.
  void ForShared(const std::function<void(int64_t begin, int64_t count)>& work);
  // `completing`: iterations that the clock does not count yet.
  MergeTime Now(int completing) const;
  WriteOrder& order() override { return replica_->order(); }
  float look_ahead() const override;

  WeightBuffer& shared_;
  IterationClock& clock_;
  const int solvers_;
  const Clock& time_;
  const std::function<float()> peers_;
  DeviceWeights* const replica_;     // may be null
  std::optional<ReplicaCopy> copy_;  // of replica_
  UpdateLock holder_;
  const int slot_;
  LocalMerger merger_;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_LOCAL_H_
