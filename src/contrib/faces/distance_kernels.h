// Kernels of layers that compute distances from centers and between examples.
#ifndef MILLRACE_CONTRIB_FACES_DISTANCE_KERNELS_H_
#define MILLRACE_CONTRIB_FACES_DISTANCE_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/activation/softmax_kernels.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline contrib {

// Kernels (device/kernel.h) of the CenterLoss layer.

// Terms of the loss (loss_kernels.h). An element is a feature of an example.
struct CenterTerms {
  static constexpr bool kLabels = true;
  LabelsOfPositions labels;
  int64_t features;
  const float* values;
  const float* centers;

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

// Kernels (device/kernel.h) of the InnerDistance layer. Arrays: examples {rows, features}, centers
// {centers, features}, distances {rows, centers}.

// What the distance of an example and a center adds up for each feature.
struct DistanceOfFeature {
  bool squares;  // (x - center)^2; otherwise |x - center|

  MILLRACE_HOST_DEVICE float Value(float d) const { return squares ? d * d : fabsf(d); }
  MILLRACE_HOST_DEVICE float Slope(float d) const {
    if (squares) return 2 * d;
    return d > 0 ? 1.0f : d < 0 ? -1.0f : d;  // NaN stays NaN
  }
};

// A row is a distance.
struct InnerDistances {
  DistanceOfFeature distance;
  int64_t centers, features;
  const float* examples;
  const float* center_values;
  float* top;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t i) const {
    const float* const x = examples + i / centers * features;
    const float* const center = center_values + i % centers * features;
    const double sum =
        team.Sum(features, [&](int64_t k) { return distance.Value(x[k] - center[k]); });
    team.Once([&] { top[i] = static_cast<float>(sum); });
  }
};

// An element is a feature of an example.
struct InnerDistanceOfExamples {
  DistanceOfFeature distance;
  int64_t centers, features;
  const float* examples;
  const float* center_values;
  const float* top_diff;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t m = i / features, k = i % features;
    float sum = 0;
    for (int64_t n = 0; n < centers; ++n) {
      sum +=
          top_diff[m * centers + n] * distance.Slope(examples[i] - center_values[n * features + k]);
    }
    diff[i] = sum;
  }
};

// An element is a feature of a center. With `labels`, a center has a gradient from the examples of
// its class alone. Added to `diff` if `add`.
struct InnerDistanceOfCenters {
  DistanceOfFeature distance;
  int64_t rows, centers, features;
  bool add;
  const float* examples;
  const float* center_values;
  const float* labels;  // may be null
  const float* top_diff;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t n = i / features, k = i % features;
    const KernelLabels labels_are{centers, false, 0};
    float sum = add ? diff[i] : 0.0f;
    for (int64_t m = 0; m < rows; ++m) {
      if (labels && labels_are.Class(labels[m]) != n) continue;
      sum +=
          top_diff[m * centers + n] * distance.Slope(center_values[i] - examples[m * features + k]);
    }
    diff[i] = sum;
  }
};

// Kernels (device/kernel.h) of the TripletLoss layer.

// The three arrays {triplets, features}.
struct TripletArrays {
  const float* anchor;
  const float* positive;
  const float* negative;
};

// A row is a triplet: |anchor - positive|^2 - |anchor - negative|^2.
struct TripletGap {
  TripletArrays arrays;
  int64_t features;
  float* gap;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double sum = team.Sum(features, [&](int64_t k) {
      const int64_t i = row * features + k;
      const float near = arrays.anchor[i] - arrays.positive[i];
      const float far = arrays.anchor[i] - arrays.negative[i];
      return near * near - far * far;
    });
    team.Once([&] { gap[row] = static_cast<float>(sum); });
  }
};

// Terms of the loss (loss_kernels.h). An element is a triplet.
struct TripletTerms {
  static constexpr bool kLabels = false;
  float margin;
  const float* gap;

  MILLRACE_HOST_DEVICE float Value(int64_t triplet) const {
    const float missing = margin + gap[triplet];
    return missing < 0 ? 0.0f : missing;  // NaN stays NaN
  }
};

// An element is a value of one bottom: its diff is that of plus - minus, where the margin is
// missed.
struct TripletBackward {
  LossScale scale;
  TripletTerms terms;
  int64_t features;
  const float* plus;
  const float* minus;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const bool missed = !(terms.margin + terms.gap[i / features] <= 0);
    diff[i] = missed ? 2 * scale.Get() * (plus[i] - minus[i]) : 0.0f;
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_FACES_DISTANCE_KERNELS_H_
