// Kernel (device/kernel.h) that stores the key of a pass's random numbers.
#ifndef MILLRACE_NN_LAYERS_RANDOM_KEY_KERNELS_H_
#define MILLRACE_NN_LAYERS_RANDOM_KEY_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

struct StoreKey {
  uint64_t key;
  uint64_t* to;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(to);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t) const { *to = key; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_RANDOM_KEY_KERNELS_H_
