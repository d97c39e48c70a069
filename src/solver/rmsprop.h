// RMSProp in the steps of Caffe, with g from regularized_gradient.h and one slot of history, h:
//   h = rms_decay * h + (1 - rms_decay) * g^2
//   w = w - rate * lr_mult * g / (sqrt(h) + delta)
// (Tieleman, Hinton: "RMSProp: Divide the gradient by a running average of its recent magnitude",
// COURSERA: Neural Networks for Machine Learning, 2012). There is no momentum.
#ifndef MILLRACE_SOLVER_RMSPROP_H_
#define MILLRACE_SOLVER_RMSPROP_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "solver/regularized_gradient.h"

namespace millrace::inline solver {

// An element is a weight.
struct RmsPropUpdate {
  static constexpr int kSlots = 1;

  RegularizedGradient gradient;
  float rate = 0;  // learning rate times the parameter's lr_mult
  float rms_decay = 0;
  float delta = 0;
  const float* gradients = nullptr;
  float* history = nullptr;
  float* weights = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(gradients), visit(history), visit(weights);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float g = gradient.Of(gradients[i], weights[i]);
    const float h = rms_decay * history[i] + (1 - rms_decay) * (g * g);
    history[i] = h;
    weights[i] -= rate * (g / (sqrtf(h) + delta));
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_RMSPROP_H_
