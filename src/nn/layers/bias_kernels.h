// Kernels (device/kernel.h) that add a bias per channel, and compute its gradient. Values lie in
// the order [outer][channel][plane]; a fully connected layer has planes of one value.
#ifndef MILLRACE_NN_LAYERS_BIAS_KERNELS_H_
#define MILLRACE_NN_LAYERS_BIAS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// An element is a value.
struct AddBias {
  int64_t channels, plane;
  const float* bias;
  float* values;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bias), visit(values);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { values[i] += bias[i / plane % channels]; }
};

// A row is a channel: its gradient is the sum of its diffs, which is added to bias_diff if `add`.
struct BiasGradient {
  int64_t outer, channels, plane;
  bool add;
  const float* diffs;
  float* bias_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(diffs), visit(bias_diff);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t channel) const {
    const double sum = team.Sum(outer * plane, [&](int64_t i) {
      return diffs[(i / plane * channels + channel) * plane + i % plane];
    });
    team.Once(
        [&] { bias_diff[channel] = static_cast<float>(sum) + (add ? bias_diff[channel] : 0.0f); });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BIAS_KERNELS_H_
