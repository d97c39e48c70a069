// Kernels (device/kernel.h) of the Reduction layer: the bottom is {rows, length}.
#ifndef MILLRACE_NN_LAYERS_UTILITY_REDUCTION_KERNELS_H_
#define MILLRACE_NN_LAYERS_UTILITY_REDUCTION_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

enum class Reduced : int32_t { kValues, kMagnitudes, kSquares };

// A row of the kernel is one of the bottom: top = factor * sum of its values, of their magnitudes
// or of their squares.
struct ReduceRows {
  int64_t length;
  Reduced reduced;
  float factor;
  const float* bottom;
  float* top;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const float* values = bottom + row * length;
    const double sum = team.Sum(length, [&](int64_t i) {
      const double x = values[i];
      if (reduced == Reduced::kSquares) return x * x;
      return reduced == Reduced::kMagnitudes && x < 0 ? -x : x;
    });
    team.Once([&] { top[row] = static_cast<float>(factor * sum); });
  }
};

// An element is a value of the bottom.
struct ReductionGradient {
  Divisor length;
  Reduced reduced;
  float factor;
  const float* bottom;
  const float* top_diff;
  float* bottom_diff;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const float x = bottom[i], diff = factor * top_diff[i / length];
    const float sign = x > 0 ? 1.0f : (x < 0 ? -1.0f : 0.0f);
    bottom_diff[i] = reduced == Reduced::kSquares      ? 2 * x * diff
                     : reduced == Reduced::kMagnitudes ? sign * diff
                                                       : diff;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UTILITY_REDUCTION_KERNELS_H_
