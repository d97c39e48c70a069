// Kernels (device/kernel.h) of the SigmoidCrossEntropyLoss layer.
#ifndef MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h).
struct SigmoidCrossEntropyTerms {
  static constexpr bool kLabels = true;
  bool has_ignored;
  float ignored;
  const float* scores;
  const float* targets;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(scores), visit(targets);
  }
  MILLRACE_HOST_DEVICE bool Counts(int64_t i) const {
    return !(has_ignored && truncf(targets[i]) == ignored);
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const {
    const float x = scores[i];
    const float loss = (x >= 0 ? x : 0.0f) - x * targets[i] + log1pf(expf(-fabsf(x)));
    return Counts(i) ? loss : 0.0f;
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const { return Counts(i) ? 1.0f : 0.0f; }
  MILLRACE_HOST_DEVICE float Invalid(int64_t /*i*/) const { return 0; }
};

struct SigmoidCrossEntropyBackward {
  LossScale scale;
  SigmoidCrossEntropyTerms terms;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float sigmoid = 1 / (1 + expf(-terms.scores[i]));
    diff[i] = terms.Counts(i) ? scale.Get() * (sigmoid - terms.targets[i]) : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SIGMOID_CROSS_ENTROPY_LOSS_KERNELS_H_
