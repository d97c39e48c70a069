// Operations (channel_kernels.h) that normalise and scale in one pass: of BN, and of a BatchNorm
// layer that does the work of the Scale layer behind it, and of a ReLU behind that:
//   n = (bottom - mean) * inverse      y = n * scale + bias      top = y, or max(y, 0)
// With d = d top, or 0 where the ReLU stops it, and means over a channel:
//   d scale = sum(d * n)      d bias = sum(d)
//   d bottom = inverse * scale * (d - mean(d) - n * mean(d * n))
// The last two terms are absent where mean and variance do not depend on the bottom.
#ifndef MILLRACE_NN_LAYERS_NORM_NORMALIZE_SCALE_KERNELS_H_
#define MILLRACE_NN_LAYERS_NORM_NORMALIZE_SCALE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/kernel_math.h"
#include "nn/layers/channel_kernels.h"
#include "nn/layers/elementwise/scale_kernels.h"

namespace millrace::inline nn {

// The numbers of a channel.
template <bool kRelu>
struct NormalizeScale {
  const float* mean;
  const float* inverse;
  const float* scale;
  const float* bias;

  MILLRACE_HOST_DEVICE float Normal(float x, int64_t channel) const {
    return (x - mean[channel]) * inverse[channel];
  }
  MILLRACE_HOST_DEVICE float Scaled(float x, int64_t channel) const {
    return Normal(x, channel) * scale[channel] + bias[channel];
  }
  // NaNs pass through.
  MILLRACE_HOST_DEVICE float Top(float x, int64_t channel) const {
    const float y = Scaled(x, channel);
    return kRelu ? kernel_math::Select(y <= 0, 0, y) : y;
  }
  // The diff of y.
  MILLRACE_HOST_DEVICE float Diff(float top_diff, float x, int64_t channel) const {
    return kRelu ? kernel_math::Select(Scaled(x, channel) <= 0, 0, top_diff) : top_diff;
  }
};

template <bool kRelu, bool kKeep>
struct NormalizeScaleForward {
  NormalizeScale<kRelu> channels;
  const float* bottom;
  float* copy;  // of the bottom, if kKeep
  float* top;   // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
    if constexpr (kKeep) visit(copy);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = bottom[i];
    if constexpr (kKeep) copy[i] = x;
    top[i] = channels.Top(x, channel);
  }
};

// The gradients of scale and bias, and the means for the gradient of the bottom.
template <bool kRelu>
struct NormalizeScaleSums {
  NormalizeScale<kRelu> channels;
  int64_t count;  // values of a channel
  const float* bottom;
  const float* top_diff;
  ChannelGradient scale, bias;
  float* diff_mean;     // mean(d)
  float* product_mean;  // mean(d * n)

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t channel) const {
    const float d = channels.Diff(top_diff[i], bottom[i], channel);
    return {d, d * (bottom[i] - channels.mean[channel])};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double diffs, double products) const {
    const double n = static_cast<double>(count), normal = products * channels.inverse[channel];
    scale.Set(channel, normal);
    bias.Set(channel, diffs);
    diff_mean[channel] = static_cast<float>(diffs / n);
    product_mean[channel] = static_cast<float>(normal / n);
  }
};

// `kGlobal`: mean and variance do not depend on the bottom.
template <bool kRelu, bool kGlobal>
struct NormalizeScaleBackward {
  NormalizeScale<kRelu> channels;
  const float* bottom;  // if kRelu or not kGlobal
  const float* top_diff;
  const float* diff_mean;  // if not kGlobal
  const float* product_mean;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top_diff), visit(bottom_diff);
    if constexpr (kRelu || !kGlobal) visit(bottom);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float factor = channels.inverse[channel] * channels.scale[channel];
    if constexpr (kGlobal) {
      bottom_diff[i] =
          factor * (kRelu ? channels.Diff(top_diff[i], bottom[i], channel) : top_diff[i]);
    } else {
      const float d = channels.Diff(top_diff[i], bottom[i], channel);
      bottom_diff[i] = factor * (d - diff_mean[channel] -
                                 channels.Normal(bottom[i], channel) * product_mean[channel]);
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_NORM_NORMALIZE_SCALE_KERNELS_H_
