// Formulas and kernels (device/kernel.h) of layers that change the score of each example's label.
// Scores are {examples, classes}. A formula has
//   float Value(float x) const    the score of the label, given that before the margin
//   float Slope(float x) const    its derivative
#ifndef MILLRACE_NN_LAYERS_LABEL_MARGIN_KERNELS_H_
#define MILLRACE_NN_LAYERS_LABEL_MARGIN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/softmax_kernels.h"

namespace millrace::inline nn {

// x + bias, where that is above 0 (a bias is negative); x elsewhere.
struct AddedMargin {
  float bias;

  MILLRACE_HOST_DEVICE float Value(float x) const { return x > -bias ? x + bias : x; }
  MILLRACE_HOST_DEVICE float Slope(float) const { return 1; }
};

// The cosine of an angle increased by m, given its cosine; beyond pi - m, where that would fall no
// more, x - m sin(m). As in Caffe, the slope is 1 there and at x >= 1, where it is infinite.
struct AngleMargin {
  float cos_m, sin_m;
  float step;  // m sin(m)

  MILLRACE_HOST_DEVICE float Value(float x) const {
    if (x <= -cos_m) return x - step;
    if (x >= 1) return cos_m;
    return x * cos_m - sqrtf(1 - x * x) * sin_m;
  }
  MILLRACE_HOST_DEVICE float Slope(float x) const {
    if (x <= -cos_m || x >= 1) return 1;
    return cos_m + sin_m * x / sqrtf(1 - x * x);
  }
};

// An element is a score.
template <typename Formula>
struct LabelMarginForward {
  Formula formula;
  int64_t classes;
  const float* labels;
  const float* scores;
  float* top;  // may be `scores`

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(labels), visit(scores), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const KernelLabels labels_are{classes, false, 0};
    const bool own = labels_are.Class(labels[i / classes]) == i % classes;
    top[i] = own ? formula.Value(scores[i]) : scores[i];
  }
};

// An element is a score.
template <typename Formula>
struct LabelMarginBackward {
  Formula formula;
  int64_t classes;
  const float* labels;
  const float* scores;
  const float* top_diff;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(labels), visit(scores), visit(top_diff), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const KernelLabels labels_are{classes, false, 0};
    const bool own = labels_are.Class(labels[i / classes]) == i % classes;
    diff[i] = own ? top_diff[i] * formula.Slope(scores[i]) : top_diff[i];
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LABEL_MARGIN_KERNELS_H_
