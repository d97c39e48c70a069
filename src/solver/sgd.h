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
//   w = w - (h' + look_ahead * momentum * (h' - h))
// so that with look_ahead = 1 the weights that all solvers read are one step of every history ahead
// (Hakimi, Barkai, Gabel, Schuster: "Taming Momentum in a Distributed Asynchronous Environment",
// 2019, there DANA-Slim). Solvers look less far ahead where averages of their progress stand for
// the steps of the others (look_ahead.h). Plain momentum oscillates on stale weights: with momentum
// 0.9 and three solvers in turn, it diverges for curvatures above 0.092 / rate, with look-ahead
// only above 0.32 / rate. `momentum_lookahead: false` selects plain momentum.
//
// The rule "Nesterov" is Nesterov's accelerated gradient in Caffe's form: step 4 is always
//   h' = momentum * h + rate * lr_mult * g
//   w  = w - ((1 + momentum) * h' - momentum * h); h = h'
// which is the step with look-ahead (Sutskever, Martens, Dahl, Hinton: "On the importance of
// initialization and momentum in deep learning", ICML 2013).
#ifndef MILLRACE_SOLVER_SGD_H_
#define MILLRACE_SOLVER_SGD_H_

#include "solver/sgd_step.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

// Everything but the kernels. The subclass for a device has these.
class SgdRule : public UpdateRule {
 public:
  void Apply(float rate, float look_ahead, const float* gradients, float* weights) final;

 protected:
  // The `type` in the context's parameters is "SGD" or "Nesterov".
  explicit SgdRule(const UpdateContext& context);

  // Enqueues one step for all parameters but those with an lr_mult of 0: with `rate` times the
  // parameter's lr_mult and weight_decay() times its decay_mult.
  virtual void StepAll(float rate, float ahead, const float* gradients, float* weights) = 0;

  // SgdStep::ahead of an update.
  float AheadOf(float look_ahead) const;
  float momentum() const { return momentum_; }
  float weight_decay() const { return weight_decay_; }
  bool l1() const { return l1_; }

 private:
  enum class LookAhead { kNever, kTogether, kAlways };
  static LookAhead LookAheadOf(const caffe::SolverParameter& param);

  const LookAhead ahead_;
  const float momentum_, weight_decay_;
  const bool l1_;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SGD_H_
