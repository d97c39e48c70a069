// Kernel (device/kernel.h) of the Dropout layer.
#ifndef MILLRACE_NN_LAYERS_ACTIVATION_DROPOUT_KERNELS_H_
#define MILLRACE_NN_LAYERS_ACTIVATION_DROPOUT_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "base/philox.h"

namespace millrace::inline nn {

// Multiplies by the mask of a pass: out = in * scale where a value is kept, in * 0 elsewhere.
// Forward and backward both make the mask from its key; none is stored.
//
// Values lie in groups of 64, which belong to 16 counters: word j of counter 16 g + c is that of
// value 64 g + 16 j + c. An element of the kernel is a counter: kernel count is counters(count).
struct DropoutMask {
  const uint64_t* key;
  uint32_t threshold;  // a word below it drops its value
  float scale;
  int64_t count;  // of values
  const float* in;
  float* out;  // may be `in`

  static int64_t counters(int64_t count) { return (count + 63) / 64 * 16; }

  MILLRACE_HOST_DEVICE void operator()(int64_t counter) const {
    uint32_t words[4];
    PhiloxBlock(*key, static_cast<uint64_t>(counter), 0, words);
    const int64_t first = counter / 16 * 64 + counter % 16;
    for (int j = 0; j < 4; ++j) {
      const int64_t i = first + 16 * j;
      if (i < count) out[i] = in[i] * (words[j] < threshold ? 0.0f : scale);
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ACTIVATION_DROPOUT_KERNELS_H_
