// Kernels (device/kernel.h) of the DiceLoss layer. U and D: see dice_loss_layer.cc.
#ifndef MILLRACE_CONTRIB_SEGMENTATION_DICE_LOSS_KERNELS_H_
#define MILLRACE_CONTRIB_SEGMENTATION_DICE_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline contrib {

// Terms of the loss (loss_kernels.h): what a value adds to U, and as its count to D.
struct DiceTerms {
  static constexpr bool kLabels = true;
  bool has_ignored;
  float ignored;
  const float* scores;
  const float* targets;

  MILLRACE_HOST_DEVICE bool Counts(int64_t i) const {
    return !(has_ignored && truncf(targets[i]) == ignored);
  }
  MILLRACE_HOST_DEVICE float Sigmoid(int64_t i) const { return 1 / (1 + expf(-scores[i])); }
  MILLRACE_HOST_DEVICE float Value(int64_t i) const {
    return Counts(i) ? 2 * targets[i] * Sigmoid(i) : 0.0f;
  }
  MILLRACE_HOST_DEVICE float Counted(int64_t i) const {
    return Counts(i) ? targets[i] + Sigmoid(i) : 0.0f;
  }
  MILLRACE_HOST_DEVICE float Invalid(int64_t /*i*/) const { return 0; }
};

// A kernel of one row: the loss, and U and D for the backward pass.
struct DiceOfParts {
  int64_t parts;
  const LossPart* sums;
  float* ratio;
  float* loss;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double u = 1e-6 + team.Sum(parts, [&](int64_t i) { return sums[i].value; });
    const double d = 1e-6 + team.Sum(parts, [&](int64_t i) { return sums[i].counted; });
    team.Once([&] {
      ratio[0] = static_cast<float>(u);
      ratio[1] = static_cast<float>(d);
      *loss = static_cast<float>(1 - u / d);
    });
  }
};

struct DiceBackward {
  DiceTerms terms;
  const float* loss_diff;
  const float* ratio;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float s = terms.Sigmoid(i), d = ratio[1];
    const float slope = -(2 * terms.targets[i] - ratio[0] / d) / d * s * (1 - s);
    diff[i] = terms.Counts(i) ? *loss_diff * slope : 0.0f;
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_SEGMENTATION_DICE_LOSS_KERNELS_H_
