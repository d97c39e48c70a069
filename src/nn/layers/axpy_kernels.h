// Kernels (device/kernel.h) of the Axpy layer. Blobs are {channels, plane}: the channels of all
// images, one after the other.
#ifndef MILLRACE_NN_LAYERS_AXPY_KERNELS_H_
#define MILLRACE_NN_LAYERS_AXPY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// A row is a channel: out = factor * x + y. `y` may be null: 0.
struct AxpyOfChannels {
  int64_t plane;
  const float* factor;
  const float* x;
  const float* y;
  float* out;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(factor), visit(x), visit(out);
    if (y) visit(y);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t channel) const {
    const float a = factor[channel];
    const int64_t begin = channel * plane;
    team.ForEach(plane,
                 [&](int64_t i) { out[begin + i] = a * x[begin + i] + (y ? y[begin + i] : 0.0f); });
  }
};

// A row is a channel: factor_diff = sum of x * top_diff.
struct AxpyFactorGradient {
  int64_t plane;
  const float* x;
  const float* top_diff;
  float* factor_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(x), visit(top_diff), visit(factor_diff);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t channel) const {
    const int64_t begin = channel * plane;
    const double sum = team.Sum(
        plane, [&](int64_t i) { return static_cast<double>(x[begin + i]) * top_diff[begin + i]; });
    team.Once([&] { factor_diff[channel] = static_cast<float>(sum); });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_AXPY_KERNELS_H_
