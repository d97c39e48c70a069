// The coefficients of one momentum step, as every device's kernels take them.
#ifndef MILLRACE_SOLVER_SGD_STEP_H_
#define MILLRACE_SOLVER_SGD_STEP_H_

namespace millrace::inline solver {

// For each element, with pull = weight (L2) or sign(weight) (L1):
//   next    = momentum * history + rate * (scale * gradient + decay * pull)
//   weight  = weight - (next + ahead * (next - history))
//   history = next
struct SgdStep {
  float rate = 0;  // learning rate times the parameter's lr_mult
  float momentum = 0;
  float scale = 1;  // of the gradient: clipping and 1 / iter_size
  float decay = 0;  // weight decay times the parameter's decay_mult
  float ahead = 0;  // look-ahead: `momentum` for one step
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_SGD_STEP_H_
