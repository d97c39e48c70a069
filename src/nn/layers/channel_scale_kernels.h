// Kernels (device/kernel.h) of the ChannelScale layer. Arrays: x {images, channels, area}, scales
// {images, area}.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_
#define MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// An element is a value of x.
struct ScaleChannels {
  int64_t channels, area;
  const float* scales;
  const float* in;
  float* out;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(scales), visit(in), visit(out);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    out[i] = in[i] * scales[i / (channels * area) * area + i % area];
  }
};

// An element is a scale: its gradient, the sum over the channels.
struct ChannelScaleGradient {
  int64_t channels, area;
  const float* x;
  const float* top_diff;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(x), visit(top_diff), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i / area * channels * area + i % area;
    float sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      sum += x[begin + c * area] * top_diff[begin + c * area];
    }
    diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_
