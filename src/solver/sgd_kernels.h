// Kernels (device/kernel.h) of SGD. The formulas are those of SgdStep.
#ifndef MILLRACE_SOLVER_SGD_KERNELS_H_
#define MILLRACE_SOLVER_SGD_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "solver/sgd_step.h"

namespace millrace::inline solver {

// An element is a weight.
struct SgdUpdate {
  SgdStep step;
  bool l1;
  const float* gradients;
  float* history;
  float* weights;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(gradients), visit(history), visit(weights);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float w = weights[i], h = history[i];
    const float sign = w > 0 ? 1.0f : (w < 0 ? -1.0f : 0.0f);
    const float pull = l1 ? sign : w;
    const float next =
        step.momentum * h + step.rate * (step.scale * gradients[i] + step.decay * pull);
    weights[i] = w - (next + step.ahead * (next - h));
    history[i] = next;
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SGD_KERNELS_H_
