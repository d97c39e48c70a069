// Kernels (device/kernel.h) of the FocalLoss layer.
#ifndef MILLRACE_CONTRIB_DETECTION_FOCAL_LOSS_KERNELS_H_
#define MILLRACE_CONTRIB_DETECTION_FOCAL_LOSS_KERNELS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline contrib {

// Terms of the loss (loss_kernels.h). An element is a position.
struct FocalTerms {
  static constexpr bool kLabels = true;
  LabelsOfPositions labels;
  ClassesOfRow view;
  float alpha, gamma;
  const float* probability;

  // 1 - p, which rounding may make negative; NaN stays NaN.
  MILLRACE_HOST_DEVICE static float Rest(float p) { return 1 - p < 0 ? 0.0f : 1 - p; }
  MILLRACE_HOST_DEVICE static float Log(float p) { return logf(p < FLT_MIN ? FLT_MIN : p); }
  MILLRACE_HOST_DEVICE float Value(int64_t row) const {
    const int64_t label = labels.At(row);
    if (label < 0) return 0;
    const float p = probability[view.At(row, label)];
    return -alpha * powf(Rest(p), gamma) * Log(p);
  }
  // g of focal_loss_layer.cc.
  MILLRACE_HOST_DEVICE float Slope(int64_t row, int64_t label) const {
    const float p = probability[view.At(row, label)], rest = Rest(p);
    const float power = powf(rest, gamma);
    // The power of gamma - 1, by a division that does not overflow.
    const float less = power / (rest < 1e-10f ? 1e-10f : rest);
    return alpha * (power - gamma * less * p * Log(p));
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t row) const { return labels.Counted(row); }
  MILLRACE_HOST_DEVICE float Invalid(int64_t row) const { return labels.Invalid(row); }
};

// A row is a position.
struct FocalBackward {
  LossScale scale;
  FocalTerms terms;
  float* diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const int64_t label = terms.labels.At(row);
    const float factor = label < 0 ? 0.0f : scale.Get() * terms.Slope(row, label);
    team.ForEach(int64_t{terms.view.classes}, [&](int64_t c) {
      const int64_t at = terms.view.At(row, c);
      diff[at] = label < 0 ? 0.0f : factor * (terms.probability[at] - (c == label ? 1.0f : 0.0f));
    });
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_FOCAL_LOSS_KERNELS_H_
