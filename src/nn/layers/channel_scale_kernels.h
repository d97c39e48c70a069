// Kernels (device/kernel.h) of the ChannelScale layer. Arrays: x {images, channels, area}, scales
// {images, area}.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_
#define MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// An element is a value of x.
struct ScaleChannels {
  Divisor channels, area;
  const float* scales;
  const float* in;
  float* out;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(scales), visit(in), visit(out);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    out[i] = in[i] * scales[i / area / channels * area + i % area];
  }
};

// An element is a scale: its gradient, the sum over the channels.
struct ChannelScaleGradient {
  Divisor channels, area;
  const float* x;
  const float* top_diff;
  float* diff;

  int64_t Extent(int64_t count) const { return count * channels; }
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(x), visit(top_diff), visit(diff);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index image = i / area, begin = image * channels * area + (i - image * area);
    float sum = 0;
    for (Index c = 0; c < static_cast<Index>(channels); ++c) {
      sum += x[begin + c * area] * top_diff[begin + c * area];
    }
    diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_SCALE_KERNELS_H_
