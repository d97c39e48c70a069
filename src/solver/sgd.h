// Stochastic gradient descent with momentum, step by step as Caffe takes them:
//   1. clip: where the L2 norm n of the whole gradient exceeds clip_gradients c
//      (c >= 0), the gradient is scaled by c / n
//   2. normalise: g = g / iter_size
//   3. regularise: g = g + weight_decay * decay_mult * w            (L2)
//                  g = g + weight_decay * decay_mult * sign(w)      (L1)
//   4. history = momentum * history + rate * lr_mult * g; w = w - history
// Steps 1 (but for the norm) to 4 are one pass over memory.
#ifndef MILLRACE_SOLVER_SGD_H_
#define MILLRACE_SOLVER_SGD_H_

#include <vector>

#include "solver/update_rule.h"

namespace millrace {

class SgdRule : public UpdateRule {
 public:
  SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
          int64_t size);

  void Apply(float rate, const float* gradients, float* weights) override;

 private:
  float ClipScale(const float* gradients) const;

  const float momentum_, weight_decay_, clip_gradients_, normalization_;
  const bool l1_;
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SGD_H_
