// Kernels of the losses of class scores and probabilities.
#ifndef MILLRACE_NN_LAYERS_LOSS_CLASS_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_LOSS_CLASS_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline nn {

// Kernels (device/kernel.h) of the HingeLoss layer.

// Terms of the loss (loss_kernels.h). An element is a score.
struct HingeTerms {
  static constexpr bool kLabels = true;
  LabelsOfScores labels;
  bool squared;  // L2
  const float* scores;

  MILLRACE_HOST_DEVICE float Sign(int64_t i) const {
    return labels.view.ClassOf(i) == labels.At(i) ? -1.0f : 1.0f;
  }
  // m of class_loss_layers.cc. NaN stays NaN.
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

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float margin = terms.Margin(i);
    const float slope = terms.squared ? 2 * margin : (margin > 0 ? 1.0f : 0.0f);
    diff[i] = scale.Get() * terms.Sign(i) * slope;
  }
};

// Kernels (device/kernel.h) of the MultinomialLogisticLoss layer, and the bound that it shares with
// InfogainLoss.

// Caffe's least probability whose logarithm a loss takes. NaN stays NaN.
MILLRACE_HOST_DEVICE float AtLeastLogThreshold(float probability) {
  return probability < 1e-20f ? 1e-20f : probability;
}

// Terms of the loss (loss_kernels.h). An element is an example.
struct MultinomialLogisticTerms {
  static constexpr bool kLabels = true;
  LabelsOfPositions labels;
  const float* probability;

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

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t classes = terms.labels.labels_are.classes;
    const bool is_label = terms.labels.At(i / classes) == i % classes;
    diff[i] = is_label ? -scale.Get() / AtLeastLogThreshold(terms.probability[i]) : 0.0f;
  }
};

// Kernels (device/kernel.h) of the InfogainLoss layer.

// Terms of the loss (loss_kernels.h). An element is a probability.
struct InfogainTerms {
  static constexpr bool kLabels = true;
  LabelsOfScores labels;
  const float* matrix;
  const float* probability;

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

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t label = terms.labels.At(i);
    float slope = 0;
    if (label >= 0) slope = terms.probability[i] * row_sums[label] - terms.Gain(i, label);
    diff[i] = scale.Get() * slope;
  }
};

// Kernels (device/kernel.h) of the SigmoidCrossEntropyLoss layer.

// Terms of the loss (loss_kernels.h).
struct SigmoidCrossEntropyTerms {
  static constexpr bool kLabels = true;
  bool has_ignored;
  float ignored;
  const float* scores;
  const float* targets;

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

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float sigmoid = 1 / (1 + expf(-terms.scores[i]));
    diff[i] = terms.Counts(i) ? scale.Get() * (sigmoid - terms.targets[i]) : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_CLASS_LOSS_KERNELS_H_
