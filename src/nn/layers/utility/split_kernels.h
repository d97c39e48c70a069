// Kernels (device/kernel.h) of the Split layer.
#ifndef MILLRACE_NN_LAYERS_UTILITY_SPLIT_KERNELS_H_
#define MILLRACE_NN_LAYERS_UTILITY_SPLIT_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// sum = first + second, elementwise. `sum` may be one of them.
struct SplitAdd {
  const float* first;
  const float* second;
  float* sum;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(first), visit(second), visit(sum);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { sum[i] = first[i] + second[i]; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UTILITY_SPLIT_KERNELS_H_
