// Division of indices by a number that the host knows, for kernels (device/kernel.h). A GPU has no
// instruction for integer division: one of 64 bits takes about 70 instructions. A 32-bit index is
// divided by a multiplication and a shift (Granlund, Montgomery: "Division by invariant integers
// using multiplication", 1994).
#ifndef MILLRACE_DEVICE_DIVISOR_H_
#define MILLRACE_DEVICE_DIVISOR_H_

#include <bit>
#include <concepts>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline device {

// A number of at least 0; nothing may be divided by 0. Indices are of type int32_t or int64_t and
// not negative. Results have the type of the index. If it is int32_t, a product has to fit in it.
class Divisor {
 public:
  constexpr Divisor(int64_t value = 1) : value_(value) {
    if (value < 1) return;
    if (value > INT32_MAX) {
      shift_ = 31;  // every 32-bit index is less: its quotient is 0
      return;
    }
    const auto d = static_cast<uint64_t>(value);
    shift_ = static_cast<uint32_t>(std::bit_width(d - 1));
    factor_ = static_cast<uint32_t>((((uint64_t{1} << shift_) - d) << 32) / d + 1);
  }

  MILLRACE_HOST_DEVICE operator int64_t() const { return value_; }

  friend MILLRACE_HOST_DEVICE int64_t operator/(int64_t index, const Divisor& by) {
    return index / by.value_;
  }
  friend MILLRACE_HOST_DEVICE int32_t operator/(int32_t index, const Divisor& by) {
    const auto n = static_cast<uint32_t>(index);
#ifdef __CUDA_ARCH__
    const uint32_t high = __umulhi(n, by.factor_);
#else
    const auto high = static_cast<uint32_t>((uint64_t{n} * by.factor_) >> 32);
#endif
    return static_cast<int32_t>((high + n) >> by.shift_);
  }
  template <std::signed_integral Index>
  friend MILLRACE_HOST_DEVICE Index operator*(Index index, const Divisor& by) {
    return index * static_cast<Index>(by.value_);
  }
  template <std::signed_integral Index>
  friend MILLRACE_HOST_DEVICE Index operator%(Index index, const Divisor& by) {
    return index - index / by * by;
  }

 private:
  int64_t value_;
  uint32_t factor_ = 0, shift_ = 0;
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_DIVISOR_H_
