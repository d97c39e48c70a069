// The update rules AdaGrad, RMSProp, AdaDelta and Adam.
#ifndef MILLRACE_SOLVER_ADAPTIVE_RULES_H_
#define MILLRACE_SOLVER_ADAPTIVE_RULES_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline solver {

// The gradient that the adaptive rules step by, element by element.

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

// AdaGrad in the steps of Caffe, with g of RegularizedGradient and one slot of history, h:
//   h = h + g^2
//   w = w - rate * lr_mult * g / (sqrt(h) + delta)
// (Duchi, Hazan, Singer: "Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization", JMLR 2011). There is no momentum.

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

// RMSProp in the steps of Caffe, with g of RegularizedGradient and one slot of history, h:
//   h = rms_decay * h + (1 - rms_decay) * g^2
//   w = w - rate * lr_mult * g / (sqrt(h) + delta)
// (Tieleman, Hinton: "RMSProp: Divide the gradient by a running average of its recent magnitude",
// COURSERA: Neural Networks for Machine Learning, 2012). There is no momentum.

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

// AdaDelta in the steps of Caffe, with g of RegularizedGradient and two slots of history: h of
// the gradients, u of the steps:
//   h = momentum * h + (1 - momentum) * g^2
//   s = g * sqrt((u + delta) / (h + delta))
//   u = momentum * u + (1 - momentum) * s^2
//   w = w - rate * lr_mult * s
// (Zeiler: "ADADELTA: An Adaptive Learning Rate Method", 2012; its rate is 1).

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

// Adam in the steps of Caffe, with g of RegularizedGradient and two slots of history, m and v:
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

#endif  // MILLRACE_SOLVER_ADAPTIVE_RULES_H_
