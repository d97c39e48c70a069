// Kernels (device/kernel.h) of the L1Loss layer.
#ifndef MILLRACE_NN_LAYERS_L1_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_L1_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h).
struct L1Terms {
  static constexpr bool kLabels = false;
  const float* a;
  const float* b;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(a), visit(b);
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const { return fabsf(a[i] - b[i]); }
  MILLRACE_HOST_DEVICE float Slope(int64_t i) const {
    const float d = a[i] - b[i];
    return d > 0 ? 1.0f : d < 0 ? -1.0f : d;  // NaN stays NaN
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_L1_LOSS_KERNELS_H_
