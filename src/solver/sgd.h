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
//
// The rule "Nesterov" is Nesterov's accelerated gradient in Caffe's form: step 4 is always
//   h' = momentum * h + rate * lr_mult * g
//   w  = w - ((1 + momentum) * h' - momentum * h); h = h'
// which is the step with look-ahead (Sutskever, Martens, Dahl, Hinton: "On the importance of
// initialization and momentum in deep learning", ICML 2013).
#ifndef MILLRACE_SOLVER_SGD_H_
#define MILLRACE_SOLVER_SGD_H_

#include <memory>
#include <vector>

#include "solver/sgd_step.h"
#include "solver/update_rule.h"

namespace millrace {

// Everything but the kernels. The subclass for a device has these.
class SgdRule : public UpdateRule {
 public:
  void Apply(float rate, bool together, const float* gradients, float* weights) final;

 protected:
  // `param.type` is "SGD" or "Nesterov".
  SgdRule(const caffe::SolverParameter& param, const std::vector<UpdateParam>& params, int64_t size,
          Queue& queue);

  // Enqueues one step for the elements [offset, offset + count) of the flat arrays.
  virtual void Step(const SgdStep& step, bool l1, int64_t offset, int64_t count,
                    const float* gradients, float* weights) = 0;
  // The sum of squares of `count` gradients. Waits for the queue.
  virtual double SumOfSquares(int64_t count, const float* gradients) = 0;

 private:
  enum class LookAhead { kNever, kTogether, kAlways };
  static LookAhead LookAheadOf(const caffe::SolverParameter& param);
  float ClipScale(const float* gradients);

  const LookAhead ahead_;
  const float momentum_, weight_decay_, clip_gradients_, normalization_;
  const bool l1_;
};

// Registers "SGD" and "Nesterov" on a device. Rule: a subclass of SgdRule with its constructor's
// arguments. Define one at namespace scope in the file with the kernels.
template <typename Rule>
struct RegisterSgdRules {
  explicit RegisterSgdRules(DeviceType device) {
    for (const char* name : {"SGD", "Nesterov"}) {
      UpdateRuleRegistry::Get().Register(
          name, device,
          [](const caffe::SolverParameter& param, const std::vector<UpdateParam>& params,
             int64_t size, Queue& queue) -> std::unique_ptr<UpdateRule> {
            return std::make_unique<Rule>(param, params, size, queue);
          });
    }
  }
};

}  // namespace millrace

#endif  // MILLRACE_SOLVER_SGD_H_
