// Atomic changes of floats that kernels of several queues, or several threads of the host, change
// at the same time.
#ifndef MILLRACE_DEVICE_ATOMIC_UPDATE_H_
#define MILLRACE_DEVICE_ATOMIC_UPDATE_H_

#include <atomic>

#include "base/host_device.h"

namespace millrace::inline device {

// *at = next(*at), as one step among all AtomicUpdates of *at. `next` may be called several times.
// Other memory is not ordered.
template <typename Next>
MILLRACE_HOST_DEVICE void AtomicUpdate(float* at, Next next) {
#ifdef __CUDA_ARCH__
  auto* const bits = reinterpret_cast<unsigned int*>(at);
  unsigned int seen = *reinterpret_cast<volatile unsigned int*>(bits), expected;
  do {
    expected = seen;
    seen = atomicCAS(bits, expected, __float_as_uint(next(__uint_as_float(expected))));
  } while (seen != expected);
#else
  const std::atomic_ref<float> value(*at);
  float seen = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(seen, next(seen), std::memory_order_relaxed)) {
  }
#endif
}

// *at, which AtomicUpdate may change meanwhile.
MILLRACE_HOST_DEVICE float AtomicLoad(const float* at) {
#ifdef __CUDA_ARCH__
  return *const_cast<const volatile float*>(at);
#else
  return std::atomic_ref<float>(*const_cast<float*>(at)).load(std::memory_order_relaxed);
#endif
}

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_ATOMIC_UPDATE_H_
