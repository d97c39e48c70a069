// Kernels (device/kernel.h) of the TripletLoss layer.
#ifndef MILLRACE_NN_LAYERS_TRIPLET_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_TRIPLET_LOSS_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss_kernels.h"

namespace millrace::inline nn {

// The three arrays {triplets, features}.
struct TripletArrays {
  const float* anchor;
  const float* positive;
  const float* negative;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(anchor), visit(positive), visit(negative);
  }
};

// A row is a triplet: |anchor - positive|^2 - |anchor - negative|^2.
struct TripletGap {
  TripletArrays arrays;
  int64_t features;
  float* gap;

  template <typename Visit>
  void Pointers(Visit visit) {
    arrays.Pointers(visit);
    visit(gap);
  }
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

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(gap);
  }
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

  template <typename Visit>
  void Pointers(Visit visit) {
    scale.Pointers(visit);
    terms.Pointers(visit);
    visit(plus), visit(minus), visit(diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const bool missed = !(terms.margin + terms.gap[i / features] <= 0);
    diff[i] = missed ? 2 * scale.Get() * (plus[i] - minus[i]) : 0.0f;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_TRIPLET_LOSS_KERNELS_H_
