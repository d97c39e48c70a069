// Operations (channel_kernels.h) and kernels (device/kernel.h) of the BN layer: normalisation with
// slope and bias per channel in one pass. For each channel, `mean` and `inverse`, 1 / sqrt(variance
// + eps), are known; n = (bottom - mean) * inverse.
#ifndef MILLRACE_NN_LAYERS_BN_KERNELS_H_
#define MILLRACE_NN_LAYERS_BN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/atomic_update.h"
#include "nn/layers/channel_kernels.h"
#include "nn/layers/scale_kernels.h"

namespace millrace {

// The variance of a channel, biased. Also takes mean and variance into the sums of the passes of
// this iteration: sum = kept * sum + share * value.
struct BnVariance {
  int64_t count;
  float eps;
  float kept;  // factor of the sums of earlier passes; 0: there are none
  float share;
  const float* bottom;
  const float* mean;
  float* inverse;
  float* variance;  // may be null
  float* mean_sum;  // null: no sums
  float* variance_sum;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(mean), visit(inverse), visit(variance);
    visit(mean_sum), visit(variance_sum);
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

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(averaged_mean), visit(averaged_variance), visit(mean), visit(inverse);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t channel) const {
    mean[channel] = AtomicLoad(averaged_mean + channel);
    const float variance = AtomicLoad(averaged_variance + channel);
    inverse[channel] = 1 / sqrtf((variance < 0 ? 0.0f : variance) + eps);
  }
};

// top = slope * n + bias
template <bool kKeep>
struct BnForward {
  const float* bottom;
  const float* mean;
  const float* inverse;
  const float* slope;
  const float* bias;
  float* copy;  // of the bottom, if kKeep
  float* top;   // may be `bottom`

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(mean), visit(inverse), visit(slope), visit(bias), visit(copy), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = bottom[i];
    if constexpr (kKeep) copy[i] = x;
    top[i] = (x - mean[channel]) * inverse[channel] * slope[channel] + bias[channel];
  }
};

// With d = top_diff: the means of d and of d * n over a channel; slope_diff = sum(d * n),
// bias_diff = sum(d).
struct BnSums {
  int64_t count;
  const float* bottom;
  const float* mean;
  const float* inverse;
  const float* top_diff;
  float* diff_mean;
  float* product_mean;
  ChannelGradient slope, bias;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(mean), visit(inverse), visit(top_diff);
    visit(diff_mean), visit(product_mean), visit(slope.diff), visit(bias.diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    const float d = top_diff[i];
    return {d, d * (bottom[i] - mean[channel])};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double diffs, double products) const {
    const auto n = static_cast<double>(count);
    products *= double{inverse[channel]};
    diff_mean[channel] = static_cast<float>(diffs / n);
    product_mean[channel] = static_cast<float>(products / n);
    slope.Set(channel, products);
    bias.Set(channel, diffs);
  }
};

// bottom_diff = slope * inverse * (d - mean(d) - n * mean(d * n))
struct BnBackward {
  const float* bottom;
  const float* mean;
  const float* inverse;
  const float* slope;
  const float* top_diff;
  const float* diff_mean;
  const float* product_mean;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(mean), visit(inverse), visit(slope), visit(top_diff);
    visit(diff_mean), visit(product_mean), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float n = (bottom[i] - mean[channel]) * inverse[channel];
    bottom_diff[i] = slope[channel] * inverse[channel] *
                     (top_diff[i] - diff_mean[channel] - n * product_mean[channel]);
  }
};

// bottom_diff = slope * inverse * d: mean and variance do not depend on the bottom.
struct BnBackwardOfAverages {
  const float* inverse;
  const float* slope;
  const float* top_diff;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(inverse), visit(slope), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    bottom_diff[i] = slope[channel] * inverse[channel] * top_diff[i];
  }
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_BN_KERNELS_H_
