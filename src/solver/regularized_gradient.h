// The gradient that the adaptive rules step by, element by element.
#ifndef MILLRACE_SOLVER_REGULARIZED_GRADIENT_H_
#define MILLRACE_SOLVER_REGULARIZED_GRADIENT_H_

#include "base/host_device.h"

namespace millrace::inline solver {

//   scale * gradient + l2 * weight + l1 * sign(weight)
// One of l1 and l2 is 0: without a branch, compilers find the vectors in a loop of it.
struct RegularizedGradient {
  float scale = 1;       // clipping and 1 / iter_size
  float l1 = 0, l2 = 0;  // weight decay times the parameter's decay_mult, in the place of its type

  MILLRACE_HOST_DEVICE float Of(float gradient, float weight) const {
    const float sign = static_cast<float>((weight > 0) - (weight < 0));
    return scale * gradient + l2 * weight + l1 * sign;
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_REGULARIZED_GRADIENT_H_
