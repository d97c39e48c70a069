// Operations (channel_kernels.h) and kernels (device/kernel.h) of the BN layer's statistics: for
// each channel its mean and `inverse`, 1 / sqrt(variance + eps).
#ifndef MILLRACE_CONTRIB_SEGMENTATION_BN_KERNELS_H_
#define MILLRACE_CONTRIB_SEGMENTATION_BN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/atomic_update.h"
#include "nn/layers/channel_kernels.h"

namespace millrace::inline contrib {

// For LaunchStatistics: the variance of a channel, biased. Also takes mean and variance into the
// sums of the passes of this iteration: sum = kept * sum + share * value.
struct BnVariance {
  static constexpr bool kStatistics = true;

  int64_t count;
  float eps;
  float kept;  // factor of the sums of earlier passes; 0: there are none
  float share;
  const float* bottom;
  float* mean;
  float* inverse;
  float* variance;  // may be null
  float* mean_sum;  // null: no sums
  float* variance_sum;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    const float centered = bottom[i] - mean[channel];
    return {centered * centered, 0};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    const double value = sum / static_cast<double>(count);
    inverse[channel] = static_cast<float>(1 / sqrt(value + double{eps}));
    if (variance != nullptr) variance[channel] = static_cast<float>(value);
    if (mean_sum == nullptr) return;
    Take(mean[channel], mean_sum + channel);
    Take(static_cast<float>(value), variance_sum + channel);
  }

 private:
  MILLRACE_HOST_DEVICE void Take(float value, float* sum) const {
    *sum = share * value + (kept == 0 ? 0.0f : kept * *sum);
  }
};

// A kernel whose element is a channel: mean and inverse from averages that other threads may change
// meanwhile. A variance below 0, which merged averages may have by some rounding, counts as 0.
struct BnOfAverages {
  float eps;
  const float* averaged_mean;
  const float* averaged_variance;
  float* mean;
  float* inverse;

  MILLRACE_HOST_DEVICE void operator()(int64_t channel) const {
    mean[channel] = AtomicLoad(averaged_mean + channel);
    const float variance = AtomicLoad(averaged_variance + channel);
    inverse[channel] = 1 / sqrtf((variance < 0 ? 0.0f : variance) + eps);
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_SEGMENTATION_BN_KERNELS_H_
