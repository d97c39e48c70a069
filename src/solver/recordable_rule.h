// Updates as recorded work (device/work_graph.h): what differs from one update to the next is in
// the device's memory, where the recorded kernels read it.
#ifndef MILLRACE_SOLVER_RECORDABLE_RULE_H_
#define MILLRACE_SOLVER_RECORDABLE_RULE_H_

#include "base/host_device.h"

namespace millrace::inline solver {

// The tops of a pass that count in the objective, each of one number. A recorded update is enqueued
// before the host knows the loss, so its kernels check it.
struct LossGuard {
  static constexpr int kMaxLosses = 4;

  int count = 0;  // 0: nothing is checked
  const float* losses[kMaxLosses] = {};
  float weights[kMaxLosses] = {};

  // Whether the objective is finite, as BuiltNet::Loss computes it.
  MILLRACE_HOST_DEVICE bool IsFinite() const {
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += weights[i] * *losses[i];
    return sum - sum == 0;
  }
};

// Mix-in for update rules on devices. PrepareUpdate and the work of EnqueueUpdate do what Apply
// does, with the same results.
class RecordableRule {
 public:
  virtual ~RecordableRule() = default;
  // Before each update: enqueues the numbers of the next one. `rate`, `look_ahead`: as of Apply.
  virtual void PrepareUpdate(float rate, float look_ahead) = 0;
  // Enqueues the kernels of an update, the same each time. They change nothing if the loss is not
  // finite.
  virtual void EnqueueUpdate(const float* gradients, float* weights, const LossGuard& guard) = 0;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_RECORDABLE_RULE_H_
