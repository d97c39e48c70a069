// Kernels (device/kernel.h) of the InfogainLoss layer.
#ifndef MILLRACE_NN_LAYERS_INFOGAIN_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_INFOGAIN_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"
#include "nn/layers/multinomial_logistic_loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h). An element is a probability.
struct InfogainTerms {
  static constexpr bool kLabels = true;
  LabelsOfScores labels;
  const float* matrix;
  const float* probability;

  template <typename Visit>
  void Pointers(Visit visit) {
    labels.Pointers(visit);
    visit(matrix), visit(probability);
  }
  // H[label of the element][its class].
  MILLRACE_HOST_DEVICE float Gain(int64_t i, int64_t label) const {
    return matrix[label * labels.view.classes + labels.view.ClassOf(i)];
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const {
    const int64_t label = labels.At(i);
    if (label < 0) return 0;
    return -Gain(i, label) * logf(AtLeastLogThreshold(probability[i]));
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const { return labels.Counted(i); }
  MILLRACE_HOST_DEVICE float Invalid(int64_t i) const { return labels.Invalid(i); }
};

// A row is a row of the matrix.
struct InfogainRowSums {
  int64_t classes;
  const float* matrix;
  float* sums;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(matrix), visit(sums);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double sum = team.Sum(classes, [&](int64_t c) { return matrix[row * classes + c]; });
    team.Once([&] { sums[row] = static_cast<float>(sum); });
  }
};

// An element is a probability.
struct InfogainBackward {
  LossScale scale;
  InfogainTerms terms;
  const float* row_sums;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(row_sums), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t label = terms.labels.At(i);
    float slope = 0;
    if (label >= 0) slope = terms.probability[i] * row_sums[label] - terms.Gain(i, label);
    diff[i] = scale.Get() * slope;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_INFOGAIN_LOSS_KERNELS_H_
