// The kernel (device/kernel.h) of delay compensation, whose formula delay_compensation.h has.
#ifndef MILLRACE_STRATEGY_COMPENSATE_KERNEL_H_
#define MILLRACE_STRATEGY_COMPENSATE_KERNEL_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline strategy {

// `read`: the weights r at which the gradient was computed; becomes the gradient at the weights.
// `strength`: lambda / the number of batches whose gradients are summed.
struct Compensate {
  float strength = 0;
  const float* gradients = nullptr;
  const float* weights = nullptr;
  float* read = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(gradients);
    visit(weights);
    visit(read);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float g = gradients[i];
    read[i] = g + strength * g * g * (weights[i] - read[i]);
  }
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_COMPENSATE_KERNEL_H_
