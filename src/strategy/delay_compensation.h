// Delay compensation of a gradient (Zheng et al.: "Asynchronous Stochastic Gradient Descent with
// Delay Compensation", ICML 2017, equation 10). A gradient g was computed at the weights r; others
// have moved them to w since. To first order, with g g for the diagonal of the Hessian, the
// gradient at w is
//   g + lambda g g (w - r)
// Update rules, with their momentum, then take it like any other. With Nesterov momentum, which
// looks ahead by the solver's own history, it is DANA-DC (Hakimi et al.: "Taming Momentum in a
// Distributed Asynchronous Environment", 2019).
#ifndef MILLRACE_STRATEGY_DELAY_COMPENSATION_H_
#define MILLRACE_STRATEGY_DELAY_COMPENSATION_H_

#include <cstdint>
#include <vector>

#include "base/host_device.h"
#include "weights/copy_weights.h"

namespace millrace::inline strategy {

// `read`: the weights r; becomes the gradient at `weights`, which others may change. `gradients`
// holds the sum over `passes` batches, each of which has a gradient. The arrays have `count`
// elements and do not overlap.
void HogwildUpdateCompensate(float lambda, int passes, int64_t count, const float* gradients,
                             const float* weights, float* read);

// The compensation of one solver, which takes a copy of the weights when its iteration begins.
// Memory: one array of weights, if lambda is not 0. Not thread-safe.
class DelayCompensation {
 public:
  // `lambda`: 0 for none. `passes`: iter_size of the solver.
  DelayCompensation(float lambda, int passes, int64_t size)
      : lambda_(lambda), passes_(passes), read_(lambda > 0 ? size : 0) {}

  // The iteration begins with these weights.
  void Begin(const float* weights) {
    HogwildReadWeights(static_cast<int64_t>(read_.size()), weights, read_.data());
  }
  // The gradient to update `weights` with: `gradients`, or an array of this object that is valid
  // until the next Begin. Called once after Begin.
  const float* Correct(const float* gradients, const float* weights) {
    if (read_.empty()) return gradients;
    HogwildUpdateCompensate(lambda_, passes_, static_cast<int64_t>(read_.size()), gradients,
                            weights, read_.data());
    return read_.data();
  }

 private:
  const float lambda_;
  const int passes_;
  std::vector<float> read_;
};

// The kernel (device/kernel.h).
// `read`: the weights r at which the gradient was computed; becomes the gradient at the weights.
// `strength`: lambda / the number of batches whose gradients are summed.
struct Compensate {
  float strength = 0;
  const float* gradients = nullptr;
  const float* weights = nullptr;
  float* read = nullptr;

  template <typename Visit>
  MILLRACE_HOST_DEVICE void Elements(Visit visit) {
    visit(gradients);
    visit(weights);
    visit(read);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float g = gradients[i];
    read[i] = g + strength * g * g * (weights[i] - read[i]);
  }
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_DELAY_COMPENSATION_H_
