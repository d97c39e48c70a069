// Kernels (device/kernel.h) between float32 and bfloat16, the upper half of a float32.
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

struct NarrowToBfloat16 {
  const float* from;
  uint16_t* to;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(from), visit(to);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { to[i] = ToBfloat16(from[i]); }
};

// to = from, or to = to + from if `add`.
struct WidenFromBfloat16 {
  bool add;
  const uint16_t* from;
  float* to;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(from), visit(to);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float value = FromBfloat16(from[i]);
    to[i] = add ? to[i] + value : value;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_BFLOAT16_KERNELS_H_
