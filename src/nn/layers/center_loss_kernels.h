// Kernels (device/kernel.h) of the CenterLoss layer.
#ifndef MILLRACE_NN_LAYERS_CENTER_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_CENTER_LOSS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// Terms of the loss (loss_kernels.h). An element is a feature of an example.
struct CenterTerms {
  static constexpr bool kLabels = true;
  LabelsOfPositions labels;
  int64_t features;
  const float* values;
  const float* centers;

  template <typename Visit>
  void Pointers(Visit visit) {
    labels.Pointers(visit);
    visit(values), visit(centers);
  }
  // The distance from the center in one dimension; 0 for a label that is not a class.
  MILLRACE_HOST_DEVICE float Difference(int64_t i) const {
    const int64_t label = labels.At(i / features);
    return label < 0 ? 0.0f : values[i] - centers[label * features + i % features];
  }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const { return Difference(i) * Difference(i); }
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const {
    return i % features == 0 ? labels.Counted(i / features) : 0.0f;
  }
  MILLRACE_HOST_DEVICE float Invalid(int64_t i) const {
    return i % features == 0 ? labels.Invalid(i / features) : 0.0f;
  }
};

struct CenterLossBackward {
  LossScale scale;
  CenterTerms terms;
  float* diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    diff[i] = 2 * scale.Get() * terms.Difference(i);
  }
};

// A row is a class: the gradient of its center, which is added to center_diff if `add`.
struct CenterGradient {
  CenterTerms terms;
  int64_t examples;
  bool add;
  float* center_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    terms.Pointers(visit);
    visit(center_diff);
  }
  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double count =
        team.Sum(examples, [&](int64_t m) { return terms.labels.At(m) == row ? 1.0f : 0.0f; });
    const auto factor = static_cast<float>(1 / (1 + count));
    float* const diff = center_diff + row * terms.features;
    if (!add) team.ForEach(terms.features, [&](int64_t k) { diff[k] = 0; });
    if (!(count > 0)) return;
    for (int64_t m = 0; m < examples; ++m) {
      if (terms.labels.At(m) != row) continue;
      team.ForEach(terms.features, [&](int64_t k) {
        diff[k] -= factor * terms.Difference(m * terms.features + k);
      });
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CENTER_LOSS_KERNELS_H_
