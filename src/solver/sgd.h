// Stochastic gradient descent with momentum, in the same steps as Caffe:
//   1. clip: if the L2 norm n of the whole gradient exceeds clip_gradients c
//      (c >= 0), scale the gradient by c / n
//   2. normalise: g = g / iter_size
//   3. regularise: g = g + weight_decay * decay_mult * w            (L2)
//                  g = g + weight_decay * decay_mult * sign(w)      (L1)
//   4. h' = momentum * h + rate * lr_mult * g; w = w - h'; h = h'
// Steps 1 (except for the norm) to 4 are one pass over memory.
//
// If several solvers train the same weights, each with its own history, the others change the
// weights while one computes its gradient. With momentum, the direction of that change is known in
// advance. Step 4 then uses Nesterov look-ahead,
//   w = w - (h' + momentum * (h' - h))
// so that the weights that all solvers read are one step of every history ahead (Hakimi, Barkai,
// Gabel, Schuster: "Taming Momentum in a Distributed Asynchronous Environment", 2019, there
// DANA-Slim). Plain momentum oscillates on stale weights: with momentum 0.9 and three solvers in
// turn, it diverges for curvatures above 0.092 / rate, with look-ahead only above 0.32 / rate.
// `momentum_lookahead: false` selects plain momentum.
#ifndef MILLRACE_SOLVER_SGD_H_
#define MILLRACE_SOLVER_SGD_H_

#include <vector>

#include "solver/update_rule.h"

namespace millrace {

class SgdRule : public UpdateRule {
 public:
  SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
          int64_t size);

  void Apply(float rate, bool together, const float* gradients, float* weights) override;

 protected:
  enum class LookAhead { kNever, kTogether, kAlways };
  SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params, int64_t size,
          LookAhead ahead);

 private:
  float ClipScale(const float* gradients) const;

  const LookAhead ahead_;
  const float momentum_, weight_decay_, clip_gradients_, normalization_;
  const bool l1_;
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SGD_H_
