// Kernels (device/kernel.h) of the EuclideanLoss layer.
#ifndef MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h): squared differences.
struct EuclideanTerms {
  static constexpr bool kLabels = false;
  const float* a;
  const float* b;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(a), visit(b);
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const { return (a[i] - b[i]) * (a[i] - b[i]); }
};

// diff = factor * scale * (a - b).
struct EuclideanBackward {
  LossScale scale;
  float factor;
  const float* a;
  const float* b;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    visit(a), visit(b), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    diff[i] = factor * scale.Get() * (a[i] - b[i]);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_EUCLIDEAN_LOSS_KERNELS_H_
