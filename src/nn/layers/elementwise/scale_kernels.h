// Operations (channel_kernels.h) of the Scale and PReLU layers, whose numbers per channel are
// learned or come from another blob.
#ifndef MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_KERNELS_H_
#define MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/kernel_math.h"
#include "nn/layers/channel_kernels.h"
#include "nn/layers/elementwise/bias_kernels.h"

namespace millrace::inline nn {

// top = bottom * scale + bias
template <bool kBias, bool kKeep>
struct ScaleForward {
  const float* bottom;
  const float* scale;
  const float* bias;  // if kBias
  float* copy;        // of the bottom, if kKeep
  float* top;         // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
    if constexpr (kKeep) visit(copy);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = bottom[i];
    if constexpr (kKeep) copy[i] = x;
    float y = x * scale[channel];
    if constexpr (kBias) y += bias[channel];
    top[i] = y;
  }
};

// bottom_diff = top_diff * scale
struct ScaleBackward {
  const float* top_diff;
  const float* scale;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    bottom_diff[i] = top_diff[i] * scale[channel];
  }
};

// scale_diff = sum(top_diff * bottom), bias_diff = sum(top_diff)
struct ScaleGradients {
  const float* bottom;
  const float* top_diff;
  ChannelGradient scale, bias;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t) const {
    const float d = top_diff[i];
    return {d * bottom[i], d};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double scales, double biases) const {
    scale.Set(channel, scales);
    bias.Set(channel, biases);
  }
};

// top = bottom where that is positive, slope * bottom elsewhere
struct PreluForward {
  const float* bottom;
  const float* slope;
  float* top;  // may be `bottom`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    const float x = bottom[i];
    top[i] = x * kernel_math::Select(x > 0, 1, slope[channel]);
  }
};

struct PreluBackward {
  const float* bottom;
  const float* slope;
  const float* top_diff;
  float* bottom_diff;  // may be `top_diff`

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i, int64_t channel) const {
    bottom_diff[i] = top_diff[i] * kernel_math::Select(bottom[i] > 0, 1, slope[channel]);
  }
};

// slope_diff = sum(top_diff * bottom) over the values that are not positive
struct PreluGradient {
  const float* bottom;
  const float* top_diff;
  ChannelGradient slope;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(bottom), visit(top_diff);
  }
  MILLRACE_HOST_DEVICE ChannelSums Term(int64_t i, int64_t) const {
    const float x = bottom[i];
    return {top_diff[i] * kernel_math::Select(x > 0, 0, x), 0};
  }
  MILLRACE_HOST_DEVICE void Finish(int64_t channel, double sum, double) const {
    slope.Set(channel, sum);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ELEMENTWISE_SCALE_KERNELS_H_
