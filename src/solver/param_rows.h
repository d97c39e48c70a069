#ifndef MILLRACE_SOLVER_PARAM_ROWS_H_
#define MILLRACE_SOLVER_PARAM_ROWS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "device/kernel.h"
#include "solver/recordable_rule.h"
#include "solver/sgd_step.h"

namespace millrace::inline solver {

// Kernels (device/kernel.h) of SGD. The formulas are those of SgdStep.

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

// Kernels (device/kernel.h) over all parameters of a net at once: a table divides the flat arrays
// into rows, each of one parameter. A GPU needs one launch for them, however many parameters a net
// has.

// Elements [begin, begin + count) of the flat arrays, of one parameter.
struct ParamRow {
  int64_t begin, count;
  float lr_mult, decay_mult;
};

// What differs between updates.
struct UpdateNumbers {
  float rate = 0;        // learning rate
  float scale = 1;       // of gradients: clipping and 1 / iter_size
  float ahead = 0;       // SgdStep::ahead
  float correction = 1;  // of Adam
};

// Gives a kernel the coefficients that differ between updates and parameters: `numbers.rate` is
// times the parameter's lr_mult, and `decay` times its decay_mult.
MILLRACE_HOST_DEVICE void SetCoefficients(const UpdateNumbers& numbers, float decay, bool /*l1*/,
                                          SgdUpdate* kernel) {
  kernel->step.rate = numbers.rate;
  kernel->step.scale = numbers.scale;
  kernel->step.ahead = numbers.ahead;
  kernel->step.decay = decay;
}
template <typename Kernel>
MILLRACE_HOST_DEVICE void SetCoefficients(const UpdateNumbers& numbers, float decay, bool l1,
                                          Kernel* kernel) {
  kernel->rate = numbers.rate;
  kernel->gradient.scale = numbers.scale;
  (l1 ? kernel->gradient.l1 : kernel->gradient.l2) = decay;
  if constexpr (requires { kernel->correction; }) kernel->correction = numbers.correction;
}

// Runs an update's kernel, whose pointers are to the flat arrays, for the elements of all rows.
template <typename Kernel>
struct UpdateOfRows {
  Kernel kernel;
  UpdateNumbers numbers = {};             // with the learning rate of the solver
  const UpdateNumbers* stored = nullptr;  // in place of `numbers`; null: none
  const float* scale = nullptr;           // in place of the numbers' one; null: none
  LossGuard guard = {};
  float decay = 0;  // of the solver
  bool l1 = false;
  const ParamRow* rows = nullptr;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    if (!guard.IsFinite()) return;
    const ParamRow at = rows[row];
    UpdateNumbers own_numbers = stored ? *stored : numbers;
    own_numbers.rate *= at.lr_mult;
    if (scale) own_numbers.scale = *scale;
    Kernel own = kernel;
    SetCoefficients(own_numbers, decay * at.decay_mult, l1, &own);
    const int64_t packs = HasAlignedElements(own, at.begin) ? at.count / kPack : 0;
    team.ForEach(packs, [&](int64_t i) { RunPack(own, at.begin + kPack * i); });
    const int64_t rest = at.begin + kPack * packs;
    team.ForEach(at.count - kPack * packs, [&](int64_t i) { own(rest + i); });
  }
};

// sums[row] receives the sum of squares of the row's values.
struct SquaresOfRows {
  const ParamRow* rows;
  const float* values;
  double* sums;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const ParamRow at = rows[row];
    const double sum = team.Sum(at.count, [&](int64_t i) {
      const double value = values[at.begin + i];
      return value * value;
    });
    team.Once([&] { sums[row] = sum; });
  }
};

// What clip_gradients makes of a gradient.
struct ClippedGradient {
  float norm = 0;   // L2, of the gradient as it was
  float scale = 1;  // its factor
};

// A kernel of one row: the norm is the root of the sum of `parts`.
struct ClipBySquares {
  int64_t count;
  float limit;          // of the norm
  float normalization;  // a factor of all gradients
  const double* parts;
  ClippedGradient* clipped;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t /*row*/) const {
    const double sum = team.Sum(count, [&](int64_t i) { return parts[i]; });
    team.Once([&] {
      clipped->norm = static_cast<float>(sqrt(sum));
      // A NaN norm does not scale the gradient: the problem shows in the loss.
      const float clip = clipped->norm > limit ? limit / clipped->norm : 1;
      clipped->scale = clip * normalization;
    });
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_PARAM_ROWS_H_
