// Synchronous merges (synchronous_merge.h) of solvers on devices. Each solver has the weights w,
// the center c and the velocity v in its device's memory, and moves its center itself. The sums are
// the same on all devices, so the centers stay equal.
#ifndef MILLRACE_STRATEGY_DEVICE_MERGE_H_
#define MILLRACE_STRATEGY_DEVICE_MERGE_H_

#include "millrace/memory_space.h"
#include "solver/run_state.h"
#include "strategy/device_team.h"
#include "strategy/synchronous_merge.h"

namespace millrace::inline strategy {

class DeviceMergeStrategy : public DeviceTeamStrategy, private UpdateBehindPasses {
 public:
  // Copies the weights of the team, which outlives this object. Throws OutOfMemory.
  DeviceMergeStrategy(DeviceTeam* team, int index, const SynchronousMergeConfig& config);
  // The net's queue has ended, or Flush has been called after its last work.
  ~DeviceMergeStrategy() override;

  bool sums_gradients() const override { return false; }
  void OnGradients(float* /*gradients*/, int64_t /*begin*/) override {}
  // Enqueues the update. If the iteration ends with a merge, waits for all solvers. Throws the
  // error of a solver of this process, or of another process, that has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  UpdateBehindPasses* behind_passes(std::string* /*why*/) override { return this; }
  // If it is time to merge, enqueues the differences, waits for their sums, and enqueues the rest.
  // Layers have written their statistics since Update.
  void Complete() override;
  // Waits for the net's queue. The solver that leads copies its center to the host.
  void Flush() override;
  void Publish() override { Flush(); }

  bool merged() const override { return merges_; }
  void ExportState(SolverPart* part) const override;
  // As SynchronousMergeStrategy::RestoreState.
  void RestoreState(const StateReader& leader, const StateReader* own);

 private:
  WriteOrder& order() override { return replica().order(); }
  bool together() const override { return false; }
  void Enqueued() override;
  void Merge();
  float* center() const { return center_.get<float>(); }
  bool has_own_weights() const { return config_.rule == SynchronousMergeConfig::Rule::kElastic; }

  const SynchronousMergeConfig config_;
  const Buffer center_, sums_;  // in memory of the device, as all arrays
  const Buffer velocity_;       // with kOuter
  bool merges_ = true;          // whether the last iteration ended with a merge
  bool center_moved_ = false;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DEVICE_MERGE_H_
