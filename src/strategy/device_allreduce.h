// What strategies have in common whose solvers all take the same iterations on devices, each with a
// replica of the weights in its device's memory, and sum arrays between the devices
// (collective/device_collective.h).
//
// The solvers agree on the host that all of them have enqueued the sums of an iteration, before any
// of them waits for a sum: a solver that fails before cannot make the others wait on their devices.
#ifndef MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
#define MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective/device_collective.h"
#include "millrace/memory_space.h"
#include "solver/run_state.h"
#include "strategy/allreduce.h"
#include "strategy/synchronous_merge.h"
#include "weights/device_weights.h"

namespace millrace::inline strategy {

// The part that the solvers of a process share. Thread-safe; each index is for one thread.
class DeviceTeam {
 public:
  // `replicas`: by solver, of different devices; they get the weights of `team`. `processes` as for
  // `team`. Waits for all processes. Throws Error if the devices cannot sum.
  DeviceTeam(std::shared_ptr<AllreduceTeam> team, const std::vector<DeviceWeights*>& replicas,
             Processes* processes);

  AllreduceTeam& team() { return *team_; }
  DeviceWeights& replica(int index) { return *replicas_[index]; }
  // Null: there is one solver in all.
  DeviceCollective* collective(int index) { return group_.empty() ? nullptr : group_[index].get(); }

 private:
  const std::shared_ptr<AllreduceTeam> team_;
  const std::vector<DeviceWeights*> replicas_;
  DeviceGroup group_;
};

class DeviceTeamStrategy : public TeamStrategy {
 public:
  // `team` outlives this object.
  DeviceTeamStrategy(DeviceTeam* team, int index);
  ~DeviceTeamStrategy() override;

  Device& device() const override { return replica_.device(); }
  float* weights() override { return replica_.data(); }
  void Prepare(UpdateRule* rule) override { compute_ = &rule->queue(); }
  void Write(Queue* queue, const std::function<void()>& write) override {
    replica_.order().Write(*queue, write);
  }
  bool updates() const override { return true; }
  void Fail(std::exception_ptr error) override;

 protected:
  DeviceWeights& replica() const { return replica_; }
  // The net's queue. Null before Prepare.
  Queue* compute() const { return compute_; }

  // Sums that are enqueued from now on begin after the work that compute() has now.
  void FollowCompute();
  // Enqueues the sum of `values`, in memory of the device, over all solvers; if `average`, their
  // mean. They belong to the sum until WaitForDeviceSums returns.
  void EnqueueSum(std::span<float> values, bool average);
  // Waits until the device has all sums. The solvers have agreed before that all have enqueued
  // them. Throws the error of a solver or process that has failed.
  void WaitForDeviceSums();
  // Ends sums that wait for a solver that has failed. Afterwards none uses its values. Classes
  // whose values they are call it before they free these.
  void AbortSums();

 private:
  DeviceWeights& replica_;
  DeviceCollective* const collective_;  // null: nothing to sum
  const std::unique_ptr<Queue> sums_;   // beside the net's queue
  Queue* compute_ = nullptr;
  bool summing_ = false;  // the device may not have all sums that were enqueued
};

// Synchronous training on devices: gradients are averaged or summed between the solvers' devices
// while the backward pass goes on, and every solver makes the same update of its replica. So the
// replicas stay equal, except for the statistics that layers keep among the weights: those of a
// replica are of its own solver's batches.
class DeviceAllreduceStrategy : public DeviceTeamStrategy {
 public:
  // `team` outlives this object.
  DeviceAllreduceStrategy(DeviceTeam* team, int index);

  std::optional<int64_t> Claim(int64_t limit) override;
  // Enqueues the sums of the buckets that are complete once the device has done what is enqueued
  // for the net so far.
  void OnGradients(float* gradients, int64_t begin) override;
  // Waits for all solvers, and until the device has the sums; then enqueues the update. Throws the
  // error of a solver of this process, or of another process, that has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  // Returns when all solvers of this process have completed the iteration.
  void Complete() override;
  // The solver that leads copies its replica to the host.
  void Flush() override;
  void Publish() override { Flush(); }

  int history() const override { return 0; }  // all solvers have that of the one that leads

 private:
  GradientBuckets buckets_;
};

// Synchronous merges (synchronous_merge.h) of solvers on devices. Each solver has the weights w,
// the center c and the velocity v in its device's memory, and moves its center itself. The sums are
// the same on all devices, so the centers stay equal.
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
  float look_ahead() const override { return 0; }
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

#endif  // MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
