// The kernels (device/kernel.h) of synchronous merges, whose formulas synchronous_merge.h has. All
// arrays have one element for each weight and do not overlap.
#ifndef MILLRACE_STRATEGY_MERGE_KERNELS_H_
#define MILLRACE_STRATEGY_MERGE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline strategy {

// d = w - c, w = w - pull d. With kElastic, `pull` > 0 takes a solver towards the center before the
// differences are summed.
struct TakeDifferences {
  const float* center = nullptr;
  float pull = 0;
  float* weights = nullptr;
  float* differences = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(center);
    visit(weights);
    visit(differences);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float difference = weights[i] - center[i];
    differences[i] = difference;
    weights[i] -= pull * difference;
  }
};

// c = c + share g: kAdditive with a share of 1, kAverage with 1 / N, kElastic with pull.
struct AddSum {
  const float* sum = nullptr;
  float share = 0;
  float* center = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(sum);
    visit(center);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { center[i] += share * sum[i]; }
};

// v = momentum v + share g, c = c + rate (mean_now share g + velocity_now v): kOuter with a share
// of 1 / N; without nesterov mean_now is 0 and velocity_now 1, with nesterov 1 and momentum.
struct OuterStep {
  const float* sum = nullptr;
  float share = 0, momentum = 0, rate = 0;
  float mean_now = 0, velocity_now = 1;
  float* velocity = nullptr;
  float* center = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(sum);
    visit(velocity);
    visit(center);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float mean = share * sum[i];
    const float next = momentum * velocity[i] + mean;
    velocity[i] = next;
    center[i] += rate * (mean_now * mean + velocity_now * next);
  }
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_MERGE_KERNELS_H_
