// Synchronous training on devices: gradients are averaged or summed between the solvers' devices
// while the backward pass goes on, and every solver makes the same update of its replica. So the
// replicas stay equal, except for the statistics that layers keep among the weights: those of a
// replica are of its own solver's batches.
#ifndef MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
#define MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_

#include <optional>

#include "strategy/device_team.h"
#include "strategy/gradient_buckets.h"

namespace millrace::inline strategy {

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

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DEVICE_ALLREDUCE_H_
