// Kernels of L1Loss and SmoothL1Loss.
#ifndef MILLRACE_CONTRIB_DETECTION_DIFFERENCE_LOSS_KERNELS_H_
#define MILLRACE_CONTRIB_DETECTION_DIFFERENCE_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline contrib {

// Kernels (device/kernel.h) of the L1Loss layer.

// Terms of the loss (loss_kernels.h).
struct L1Terms {
  static constexpr bool kLabels = false;
  const float* a;
  const float* b;

  MILLRACE_HOST_DEVICE float Value(int64_t i) const { return fabsf(a[i] - b[i]); }
  MILLRACE_HOST_DEVICE float Slope(int64_t i) const {
    const float d = a[i] - b[i];
    return d > 0 ? 1.0f : d < 0 ? -1.0f : d;  // NaN stays NaN
  }
};

// Kernels (device/kernel.h) of the SmoothL1Loss layer.

// Terms of the loss (loss_kernels.h).
struct SmoothL1Terms {
  static constexpr bool kLabels = false;
  float sigma_sq;
  const float* a;
  const float* b;
  const float* inside;   // null: 1
  const float* outside;  // null: 1

  MILLRACE_HOST_DEVICE float Difference(int64_t i) const {
    return (a[i] - b[i]) * (inside != nullptr ? inside[i] : 1.0f);
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const {
    const float d = Difference(i), size = fabsf(d);
    const float loss = size < 1 / sigma_sq ? 0.5f * d * d * sigma_sq : size - 0.5f / sigma_sq;
    return loss * (outside != nullptr ? outside[i] : 1.0f);
  }
  MILLRACE_HOST_DEVICE float Slope(int64_t i) const {
    const float d = Difference(i);
    const float sign = d > 0 ? 1.0f : d < 0 ? -1.0f : d;  // NaN stays NaN
    const float slope = fabsf(d) < 1 / sigma_sq ? sigma_sq * d : sign;
    return slope * (inside != nullptr ? inside[i] : 1.0f) *
           (outside != nullptr ? outside[i] : 1.0f);
  }
};

// An element is a place of an example: the sum over its channels.
struct SmoothL1OfPlaces {
  SmoothL1Terms terms;
  int64_t channels, places;
  float* losses;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t first = i / places * channels * places + i % places;
    float sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += terms.Value(first + c * places);
    losses[i] = sum;
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_DIFFERENCE_LOSS_KERNELS_H_
