// Square roots for merge rules (merge_rule.h), correctly rounded on all processors.
#ifndef MILLRACE_EXCHANGE_KERNELS_SQUARE_ROOT_H_
#define MILLRACE_EXCHANGE_KERNELS_SQUARE_ROOT_H_

#include <math.h>  // sqrtf() of hosts and of GPUs

#include <cstddef>
#include <type_traits>

#include "base/host_device.h"

namespace millrace::inline exchange {

// T is float, or a vector of floats in host loops.
template <typename T>
MILLRACE_HOST_DEVICE T SquareRoot(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return sqrtf(x);
  } else {
    for (size_t lane = 0; lane < sizeof(T) / sizeof(float); ++lane) x[lane] = sqrtf(x[lane]);
    return x;
  }
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_SQUARE_ROOT_H_
