// AdaGrad in the steps of Caffe, with g from regularized_gradient.h and one slot of history, h:
//   h = h + g^2
//   w = w - rate * lr_mult * g / (sqrt(h) + delta)
// (Duchi, Hazan, Singer: "Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization", JMLR 2011). There is no momentum.
#ifndef MILLRACE_SOLVER_ADAGRAD_H_
#define MILLRACE_SOLVER_ADAGRAD_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "solver/regularized_gradient.h"

namespace millrace::inline solver {

// An element is a weight.
struct AdaGradUpdate {
  static constexpr int kSlots = 1;

  RegularizedGradient gradient;
  float rate = 0;  // learning rate times the parameter's lr_mult
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
    const float h = history[i] + g * g;
    history[i] = h;
    weights[i] -= rate * (g / (sqrtf(h) + delta));
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_ADAGRAD_H_
