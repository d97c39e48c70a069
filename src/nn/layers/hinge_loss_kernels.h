// Kernels (device/kernel.h) of the HingeLoss layer.
#ifndef MILLRACE_NN_LAYERS_HINGE_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_HINGE_LOSS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h). An element is a score.
struct HingeTerms {
  static constexpr bool kLabels = true;
  LabelsOfScores labels;
  bool squared;  // L2
  const float* scores;

  template <typename Visit>
  void Pointers(Visit visit) {
    labels.Pointers(visit);
    visit(scores);
  }
  MILLRACE_HOST_DEVICE float Sign(int64_t i) const {
    return labels.view.ClassOf(i) == labels.At(i) ? -1.0f : 1.0f;
  }
  // m of hinge_loss_layer.h. NaN stays NaN.
  MILLRACE_HOST_DEVICE float Margin(int64_t i) const {
    const float margin = 1 + Sign(i) * scores[i];
    return margin < 0 ? 0.0f : margin;
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const {
    const float margin = Margin(i);
    return squared ? margin * margin : margin;
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const { return labels.Counted(i); }
  MILLRACE_HOST_DEVICE float Invalid(int64_t i) const { return labels.Invalid(i); }
};

struct HingeBackward {
  LossScale scale;
  HingeTerms terms;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float margin = terms.Margin(i);
    const float slope = terms.squared ? 2 * margin : (margin > 0 ? 1.0f : 0.0f);
    diff[i] = scale.Get() * terms.Sign(i) * slope;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_HINGE_LOSS_KERNELS_H_
