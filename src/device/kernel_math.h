// Elementary functions for kernels (device/kernel.h). On a GPU they are CUDA's. On the host they
// are free of branches, so that loops over elements become vectors; the C library's would be one
// call per element. Largest errors over all floats, in units in the last place: Exp and Log 1.1,
// Tanh 1.5, Log1p 2.5 (test/device/kernel_math_test.cc). For infinities, zeros and NaNs they give
// what the C library gives.
//
// The host's polynomials are those of Cephes (S. L. Moshier, netlib.org/cephes, single precision).
#ifndef MILLRACE_DEVICE_KERNEL_MATH_H_
#define MILLRACE_DEVICE_KERNEL_MATH_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace millrace::inline device::kernel_math {

#ifdef __CUDA_ARCH__

// `a` if `condition`, else `b`. On the host without a branch, which ?: may become: a loop with a
// branch is no vector loop on processors without masks.
MILLRACE_HOST_DEVICE float Select(bool condition, float a, float b) { return condition ? a : b; }

MILLRACE_HOST_DEVICE float Exp(float x) { return expf(x); }
MILLRACE_HOST_DEVICE float Log(float x) { return logf(x); }
MILLRACE_HOST_DEVICE float Log1p(float x) { return log1pf(x); }
MILLRACE_HOST_DEVICE float Tanh(float x) { return tanhf(x); }

#else

MILLRACE_HOST_DEVICE uint32_t BitsOf(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
MILLRACE_HOST_DEVICE float FloatOf(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

MILLRACE_HOST_DEVICE float Select(bool condition, float a, float b) {
  const uint32_t mask = -static_cast<uint32_t>(condition);
  return FloatOf((BitsOf(a) & mask) | (BitsOf(b) & ~mask));
}

// e^x = 2^n e^r with |r| <= ln(2) / 2. The power of two is applied in two factors, so that results
// overflow to infinity and underflow gradually.
MILLRACE_HOST_DEVICE float Exp(float x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: the sum's last bit is a unit
  x = Select(x > 89, 89, x);
  x = Select(x < -104, -104, x);
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln(2) in two parts
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1;
  const uint32_t power = BitsOf(shifted) - BitsOf(kRound) + 254;  // n + 2 * bias, above 0
  const uint32_t half = power >> 1;
  return p * FloatOf(half << 23) * FloatOf((power - half) << 23);
}

// The natural logarithm: x = 2^e m with sqrt(1/2) <= m < sqrt(2).
MILLRACE_HOST_DEVICE float Log(float x) {
  const bool tiny = x < 1.17549435e-38f;  // subnormal, zero or negative
  const float scaled = x * Select(tiny, 8388608, 1);
  // Subtracting the bits of sqrt(1/2) makes the mantissa's range begin there.
  const uint32_t bits = BitsOf(scaled) - 0x3f3504f3u;
  const auto exponent = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float e = exponent - Select(tiny, 23, 0);
  const float m = FloatOf((bits & 0x007fffffu) + 0x3f3504f3u) - 1;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  float y = p * m * square;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * square;
  y = (m + y) + e * 0.693359375f;
  constexpr float kInfinity = __builtin_inff();
  y = Select(x == 0, -kInfinity, y);
  y = Select(x < 0, __builtin_nanf(""), y);
  return Select(x < kInfinity, y, x);  // infinity and NaN
}

// log(1 + x) for x > -1: the rounding error of 1 + x is divided out (W. Kahan).
MILLRACE_HOST_DEVICE float Log1p(float x) {
  const float sum = 1 + x;
  const float rounded = sum - 1;
  const float quotient = x / Select(rounded == 0, 1, rounded);
  const float y = Select(rounded == 0, x, Log(sum) * quotient);
  constexpr float kInfinity = __builtin_inff();
  return Select(x < kInfinity, y, x);  // infinity and NaN
}

MILLRACE_HOST_DEVICE float Tanh(float x) {
  const float magnitude = Select(x < 0, -x, x);
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float near = p * square * x + x;
  const float above = 1 - 2 / (Exp(2 * magnitude) + 1);
  return Select(magnitude < 0.625f, near, Select(x < 0, -above, above));
}

#endif

}  // namespace millrace::inline device::kernel_math

#endif  // MILLRACE_DEVICE_KERNEL_MATH_H_
