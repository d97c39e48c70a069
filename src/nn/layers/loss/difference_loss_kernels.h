// Kernels of the losses of differences between two bottoms.
#ifndef MILLRACE_NN_LAYERS_LOSS_DIFFERENCE_LOSS_KERNELS_H_
#define MILLRACE_NN_LAYERS_LOSS_DIFFERENCE_LOSS_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "nn/layers/loss/loss_kernels.h"

namespace millrace::inline nn {

// Kernels (device/kernel.h) of the EuclideanLoss layer.

// Terms of the loss (loss_kernels.h): squared differences.
struct EuclideanTerms {
  static constexpr bool kLabels = false;
  const float* a;
  const float* b;

  MILLRACE_HOST_DEVICE float Value(int64_t i) const { return (a[i] - b[i]) * (a[i] - b[i]); }
};

// diff = factor * scale * (a - b).
struct EuclideanBackward {
  LossScale scale;
  float factor;
  const float* a;
  const float* b;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    diff[i] = factor * scale.Get() * (a[i] - b[i]);
  }
};

// Kernels (device/kernel.h) of the ContrastiveLoss layer.

// A row is a pair: the square of its distance.
struct PairDistances {
  int64_t channels;
  const float* a;
  const float* b;
  float* distance_sq;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double sum = team.Sum(channels, [&](int64_t c) {
      const float difference = a[row * channels + c] - b[row * channels + c];
      return difference * difference;
    });
    team.Once([&] { distance_sq[row] = static_cast<float>(sum); });
  }
};

// Terms of the loss (loss_kernels.h). An element is a pair.
struct ContrastiveTerms {
  static constexpr bool kLabels = false;
  float margin;
  bool legacy;
  const float* distance_sq;
  const float* similar;

  MILLRACE_HOST_DEVICE bool IsSimilar(int64_t pair) const { return truncf(similar[pair]) != 0; }
  // The margin minus the distance; negative where the margin is met.
  MILLRACE_HOST_DEVICE float Missing(int64_t pair) const {
    return margin - (legacy ? distance_sq[pair] : sqrtf(distance_sq[pair]));
  }
  MILLRACE_HOST_DEVICE float Value(int64_t pair) const {
    if (IsSimilar(pair)) return distance_sq[pair];
    const float missing = Missing(pair);
    const float cost = legacy ? missing : missing * missing;
    return missing < 0 ? 0.0f : cost;
  }
  // f of difference_loss_layers.cc.
  MILLRACE_HOST_DEVICE float Factor(int64_t pair) const {
    if (IsSimilar(pair)) return 1;
    const float missing = Missing(pair);
    const float factor = legacy ? -1.0f : -missing / (sqrtf(distance_sq[pair]) + 1e-4f);
    return missing > 0 ? factor : 0.0f;
  }
};

// An element is a value of one vector; `sign` is 1 for those of `a` and -1 for those of `b`.
struct ContrastiveBackward {
  LossScale scale;
  ContrastiveTerms terms;
  int64_t channels;
  float sign;
  const float* a;
  const float* b;
  float* diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    diff[i] = 2 * sign * scale.Get() * terms.Factor(i / channels) * (a[i] - b[i]);
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LOSS_DIFFERENCE_LOSS_KERNELS_H_
