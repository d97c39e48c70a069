// Kernels (device/kernel.h) of the MultinomialLogisticLoss layer, and the bound that it shares with
// InfogainLoss.
#ifndef MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Caffe's least probability whose logarithm a loss takes. NaN stays NaN.
MILLRACE_HOST_DEVICE float AtLeastLogThreshold(float probability) {
  return probability < 1e-20f ? 1e-20f : probability;
}

// Terms of the loss (loss_kernels.h). An element is an example.
struct MultinomialLogisticTerms {
  static constexpr bool kLabels = true;
  LabelsOfPositions labels;
  const float* probability;

  template <typename Visit>
  void Pointers(Visit visit) {
    labels.Pointers(visit);
    visit(probability);
  }
  MILLRACE_HOST_DEVICE float Value(int64_t row) const {
    const int64_t label = labels.At(row);
    if (label < 0) return 0;
    return -logf(AtLeastLogThreshold(probability[row * labels.labels_are.classes + label]));
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t row) const { return labels.Counted(row); }
  MILLRACE_HOST_DEVICE float Invalid(int64_t row) const { return labels.Invalid(row); }
};

// An element is a probability.
struct MultinomialLogisticBackward {
  LossScale scale;
  MultinomialLogisticTerms terms;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t classes = terms.labels.labels_are.classes;
    const bool is_label = terms.labels.At(i / classes) == i % classes;
    diff[i] = is_label ? -scale.Get() / AtLeastLogThreshold(terms.probability[i]) : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MULTINOMIAL_LOGISTIC_LOSS_KERNELS_H_
