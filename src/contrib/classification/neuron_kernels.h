// The formulas of SeLu and ReLU6 (nn/layers/activation/neuron_kernels.h).
#ifndef MILLRACE_CONTRIB_CLASSIFICATION_NEURON_KERNELS_H_
#define MILLRACE_CONTRIB_CLASSIFICATION_NEURON_KERNELS_H_

#include "nn/layers/activation/neuron_kernels.h"

namespace millrace::inline contrib {

// y = lambda x for x > 0, lambda alpha (e^x - 1) otherwise (Klambauer and others, NIPS 2017)
struct SeluFormula {
  float lambda, alpha;

  MILLRACE_HOST_DEVICE float Value(float x) const { return lambda * EluFormula{alpha}.Value(x); }
  MILLRACE_HOST_DEVICE float Slope(float x, float y) const {
    return kernel_math::Select(x > 0, lambda, lambda * alpha + y);
  }
  // As for ELU; a negative lambda changes signs, too.
  bool SlopeNeedsBottom() const { return alpha < 0 || lambda < 0; }
};

// y = min(max(x, 0), 6). The slope is 0 on the bounds.
struct Relu6Formula {
  MILLRACE_HOST_DEVICE float Value(float x) const {
    return kernel_math::Select(x < 0, 0, kernel_math::Select(x > 6, 6, x));
  }
  MILLRACE_HOST_DEVICE float Slope(float, float y) const {
    return kernel_math::Select((y <= 0) | (y >= 6), 0, 1);
  }
  bool SlopeNeedsBottom() const { return false; }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_CLASSIFICATION_NEURON_KERNELS_H_
