// Kernels of Axpy and ChannelScale.
#ifndef MILLRACE_CONTRIB_CLASSIFICATION_CHANNEL_SCALE_KERNELS_H_
#define MILLRACE_CONTRIB_CLASSIFICATION_CHANNEL_SCALE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline contrib {

// Kernels (device/kernel.h) of the Axpy layer. Blobs are {channels, plane}: the channels of all
// images, one after the other.

// A row is a channel: out = factor * x + y. `y` may be null: 0.
struct AxpyOfChannels {
  int64_t plane;
  const float* factor;
  const float* x;
  const float* y;
  float* out;

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

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t channel) const {
    const int64_t begin = channel * plane;
    const double sum = team.Sum(
        plane, [&](int64_t i) { return static_cast<double>(x[begin + i]) * top_diff[begin + i]; });
    team.Once([&] { factor_diff[channel] = static_cast<float>(sum); });
  }
};

// Kernels (device/kernel.h) of the ChannelScale layer. Arrays: x {images, channels, area}, scales
// {images, area}.

// An element is a value of x.
struct ScaleChannels {
  Divisor channels, area;
  const float* scales;
  const float* in;
  float* out;

  static int64_t Extent(int64_t count) { return count; }
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

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_CLASSIFICATION_CHANNEL_SCALE_KERNELS_H_
