// Adam in the steps of Caffe, with g from regularized_gradient.h and two slots of history, m and v:
//   m = momentum * m + (1 - momentum) * g
//   v = momentum2 * v + (1 - momentum2) * g^2
//   w = w - rate * lr_mult * c * m / (sqrt(v) + delta)
//   c = sqrt(1 - momentum2^t) / (1 - momentum^t)
// (Kingma, Ba: "Adam: A Method for Stochastic Optimization", ICLR 2015, with the order of the
// calculation of section 2; delta is its epsilon-hat).
//
// c corrects m and v for having begun at zero, so t is the number of updates that this history
// holds, the present one included. With one solver that is the number of the iteration, from 1, as
// in Caffe. Of several solvers, each has a history of its own, which grows with the iterations that
// this solver takes. The global iteration would be too large: v would count as complete too soon,
// and n solvers would take steps that are sqrt(n) times as large for about n / (1 - momentum2)
// iterations; a solver that joins late with zero history would begin with steps of several times
// the rate. So t is saved with the history, and a resumed history continues its count. A history of
// Caffe, which does not save t, holds as many updates as iterations.
#ifndef MILLRACE_SOLVER_ADAM_H_
#define MILLRACE_SOLVER_ADAM_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "solver/regularized_gradient.h"

namespace millrace::inline solver {

// An element is a weight.
struct AdamUpdate {
  static constexpr int kSlots = 2;

  RegularizedGradient gradient;
  float rate = 0;        // learning rate times the parameter's lr_mult
  float correction = 1;  // c
  float beta1 = 0;       // momentum
  float beta2 = 0;       // momentum2
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
    const float m = beta1 * history[i] + (1 - beta1) * g;
    const float v = beta2 * history2[i] + (1 - beta2) * (g * g);
    history[i] = m;
    history2[i] = v;
    weights[i] -= rate * correction * (m / (sqrtf(v) + delta));
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_ADAM_H_
