// Kernel (device/kernel.h) of the Insanity layer.
#ifndef MILLRACE_CONTRIB_CLASSIFICATION_INSANITY_KERNELS_H_
#define MILLRACE_CONTRIB_CLASSIFICATION_INSANITY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "base/philox.h"

namespace millrace::inline contrib {

// out = in where `sign` is above 0, in / divisor elsewhere; the divisors are drawn evenly from
// [low, low + range). Forward and backward both draw them from the key of the pass; none is stored.
// Element c of the kernel draws those of the values 4 c to 4 c + 3.
struct RandomlyDivideNegatives {
  const uint64_t* key;
  float low, range;
  int64_t count;  // of values
  const float* sign;
  const float* in;
  float* out;  // may be `in` and `sign`

  static int64_t counters(int64_t count) { return (count + 3) / 4; }

  MILLRACE_HOST_DEVICE void operator()(int64_t counter) const {
    uint32_t words[4];
    PhiloxBlock(*key, static_cast<uint64_t>(counter), 0, words);
    for (int j = 0; j < 4; ++j) {
      const int64_t i = 4 * counter + j;
      if (i >= count) return;
      const float divisor = low + range * (static_cast<float>(words[j] >> 8) * 0x1p-24f);
      out[i] = sign[i] > 0 ? in[i] : in[i] / divisor;
    }
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_CLASSIFICATION_INSANITY_KERNELS_H_
