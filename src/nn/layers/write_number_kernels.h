// Kernel (device/kernel.h) that writes one number.
#ifndef MILLRACE_NN_LAYERS_WRITE_NUMBER_KERNELS_H_
#define MILLRACE_NN_LAYERS_WRITE_NUMBER_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// A kernel of one element.
template <typename Number>
struct WriteNumber {
  Number number;
  Number* to;

  MILLRACE_HOST_DEVICE void operator()(int64_t) const { *to = number; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_WRITE_NUMBER_KERNELS_H_
