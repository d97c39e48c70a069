// What strategies have in common whose solvers all take the same iterations on devices, each with a
// replica of the weights in its device's memory, and sum arrays between the devices
// (collective/device_collective.h).
//
// The solvers agree on the host that all of them have enqueued the sums of an iteration, before any
// of them waits for a sum: a solver that fails before cannot make the others wait on their devices.
#ifndef MILLRACE_STRATEGY_DEVICE_TEAM_H_
#define MILLRACE_STRATEGY_DEVICE_TEAM_H_

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collective/device_collective.h"
#include "strategy/allreduce.h"
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

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DEVICE_TEAM_H_
