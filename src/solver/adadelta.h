// AdaDelta in the steps of Caffe, with g from regularized_gradient.h and two slots of history: h of
// the gradients, u of the steps:
//   h = momentum * h + (1 - momentum) * g^2
//   s = g * sqrt((u + delta) / (h + delta))
//   u = momentum * u + (1 - momentum) * s^2
//   w = w - rate * lr_mult * s
// (Zeiler: "ADADELTA: An Adaptive Learning Rate Method", 2012; its rate is 1).
#ifndef MILLRACE_SOLVER_ADADELTA_H_
#define MILLRACE_SOLVER_ADADELTA_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "solver/regularized_gradient.h"

namespace millrace::inline solver {

// An element is a weight.
struct AdaDeltaUpdate {
  static constexpr int kSlots = 2;

  RegularizedGradient gradient;
  float rate = 0;  // learning rate times the parameter's lr_mult
  float momentum = 0;
  float delta = 0;
  const float* gradients = nullptr;
  float* history = nullptr;
  float* history2 = nullptr;
  float* weights = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(gradients), visit(history), visit(history2), visit(weights);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float g = gradient.Of(gradients[i], weights[i]);
    const float h = momentum * history[i] + (1 - momentum) * (g * g);
    const float u = history2[i];
    const float s = g * sqrtf((u + delta) / (h + delta));
    history[i] = h;
    history2[i] = momentum * u + (1 - momentum) * (s * s);
    weights[i] -= rate * s;
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_ADADELTA_H_
