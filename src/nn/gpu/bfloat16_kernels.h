// Kernels (device/kernel.h) between float32 and bfloat16, the upper half of a float32. Tensor cores
// read and write channels innermost, so the kernels also change the order of the values.
#ifndef MILLRACE_NN_GPU_BFLOAT16_KERNELS_H_
#define MILLRACE_NN_GPU_BFLOAT16_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// Rounded to nearest even, as tensor cores do: values beyond the largest become infinite, NaN
// remains NaN.
MILLRACE_HOST_DEVICE uint16_t ToBfloat16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((is_nan ? bits | 0x400000 : nearest) >> 16);
}
MILLRACE_HOST_DEVICE float FromBfloat16(uint16_t value) {
  return __builtin_bit_cast(float, uint32_t{value} << 16);
}

// An array of `images` images, as float32 in the order [image][channel][pixel], and as bfloat16 in
// the order [image][pixel][channel]: fewer than 2^31 values, as cuDNN wants it. (Of weights, an
// image is an output.) An element of the kernels is a piece of kPixels pixels, or fewer, of one
// channel; pieces of consecutive channels follow each other. So a warp reads or writes whole
// sectors of memory on both sides.
struct TwoOrders {
  static constexpr uint32_t kPixels = 8;
  uint32_t images, channels, plane;  // plane: pixels of an image

  MILLRACE_HOST_DEVICE uint32_t pieces() const { return (plane + kPixels - 1) / kPixels; }
  // Elements of the kernels.
  int64_t elements() const { return int64_t{images} * pieces() * channels; }
  int64_t values() const { return int64_t{images} * plane * channels; }

  // Where an element begins, and its pixels.
  struct Place {
    int64_t wide, narrow;
    uint32_t pixels;
  };
  MILLRACE_HOST_DEVICE Place Of(int64_t element) const {
    const auto i = static_cast<uint32_t>(element);
    const uint32_t channel = i % channels, rest = i / channels;
    const uint32_t image = rest / pieces(), pixel = rest % pieces() * kPixels;
    return {(int64_t{image} * channels + channel) * plane + pixel,
            (int64_t{image} * plane + pixel) * channels + channel,
            plane - pixel < kPixels ? plane - pixel : kPixels};
  }
};

struct NarrowToBfloat16 {
  TwoOrders orders;
  const float* from;
  uint16_t* to;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const TwoOrders::Place at = orders.Of(i);
    float values[TwoOrders::kPixels];  // all are on their way before the first is needed
    for (uint32_t k = 0; k < TwoOrders::kPixels; ++k) {
      if (k < at.pixels) values[k] = from[at.wide + k];
    }
    for (uint32_t k = 0; k < TwoOrders::kPixels; ++k) {
      if (k < at.pixels) to[at.narrow + int64_t{k} * orders.channels] = ToBfloat16(values[k]);
    }
  }
};

// to = from, or to = to + from if `add`.
struct WidenFromBfloat16 {
  TwoOrders orders;
  bool add;
  const uint16_t* from;
  float* to;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const TwoOrders::Place at = orders.Of(i);
    uint16_t values[TwoOrders::kPixels];
    for (uint32_t k = 0; k < TwoOrders::kPixels; ++k) {
      if (k < at.pixels) values[k] = from[at.narrow + int64_t{k} * orders.channels];
    }
    for (uint32_t k = 0; k < TwoOrders::kPixels; ++k) {
      if (k >= at.pixels) continue;
      float& result = to[at.wide + k];
      const float value = FromBfloat16(values[k]);
      result = add ? result + value : value;
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_BFLOAT16_KERNELS_H_
