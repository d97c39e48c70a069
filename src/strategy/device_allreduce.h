// Synchronous training on devices: each solver has a replica in its device's memory, gradients are
// averaged or summed there (collective/device_collective.h) while the backward pass goes on, and
// every solver makes the same update. So the replicas stay equal, except for the statistics that
// layers keep among the weights: those of a replica are of its own solver's batches.
//
// The solvers agree on the host that all of them have enqueued the sums of an iteration, before any
// of them waits for a sum: a solver that fails before cannot make the others wait on their devices.
#ifndef MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
#define MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective/device_collective.h"
#include "strategy/allreduce.h"
#include "strategy/gradient_buckets.h"
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

class DeviceAllreduceStrategy : public TeamStrategy {
 public:
  // `team` outlives this object.
  DeviceAllreduceStrategy(DeviceTeam* team, int index);
  ~DeviceAllreduceStrategy() override;

  Device& device() const override { return replica_.device(); }
  float* weights() override { return replica_.data(); }
  void Prepare(UpdateRule* rule) override { compute_ = &rule->queue(); }
  std::optional<int64_t> Claim(int64_t limit) override;
  // Enqueues the sums of the buckets that are complete once the device has done what is enqueued
  // for the net so far.
  void OnGradients(float* gradients, int64_t begin) override;
  // Waits for all solvers, and until the device has the sums; then enqueues the update. Throws the
  // error of a solver of this process, or of another process, that has failed.
  void Update(float rate, const float* gradients, UpdateRule* rule) override;
  void Write(Queue* queue, const std::function<void()>& write) override {
    replica_.order().Write(*queue, write);
  }
  // Returns when all solvers of this process have completed the iteration.
  void Complete() override;
  // The solver that leads copies its replica to the host.
  void Flush() override;
  void Publish() override { Flush(); }

  bool updates() const override { return true; }
  int history() const override { return 0; }  // all solvers have that of the one that leads
  void Fail(std::exception_ptr error) override;

 private:
  // Ends sums that wait for a solver that has failed. Afterwards none uses the gradients.
  void AbortSums();

  DeviceWeights& replica_;
  DeviceCollective* const collective_;  // null: nothing to sum
  const std::unique_ptr<Queue> sums_;   // beside the net's queue
  GradientBuckets buckets_;
  Queue* compute_ = nullptr;  // the net's
  bool summing_ = false;      // the device may not have all sums that were enqueued
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
