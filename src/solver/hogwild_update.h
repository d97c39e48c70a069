// The inner loops of the update rules: one pass over memory that other solver
// threads write at the same time.
//
// They use plain loads and stores, with no lock and no atomic instruction: an
// update may be lost when two solvers write the same weight at the same moment,
// which is what Hogwild accepts (Recht, Re, Wright, Niu: "Hogwild!", NIPS 2011).
// Exchanges are kept out meanwhile by the caller (UpdateRule::LockWith).
// Functions that touch shared weights are named HogwildUpdate..., the name by
// which the thread sanitizer is told of it.
#ifndef MILLRACE_SOLVER_HOGWILD_UPDATE_H_
#define MILLRACE_SOLVER_HOGWILD_UPDATE_H_

#include <cstdint>

#include "base/simd.h"

namespace millrace {

// The numbers of one momentum step over one parameter.
struct SgdStep {
  float rate = 0;  // learning rate times the parameter's lr_mult
  float momentum = 0;
  float scale = 1;  // of the gradient: clipping and 1 / iter_size
  float decay = 0;  // weight decay times the parameter's decay_mult
  float ahead = 0;  // how far beyond the step: 0, or `momentum` to look one step ahead
};

// For each of `count` elements, with no alignment asked for:
//   next    = momentum * history + rate * (scale * gradient + decay * weight)
//   weight  = weight - (next + ahead * (next - history))
//   history = next
// and with sign(weight) in place of weight in the first line for L1. `weights`
// may be shared; `gradients` and `history` belong to the caller; the three do
// not overlap. `simd` must be supported. 20 bytes of memory traffic an element.
void HogwildUpdateSgdL2(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());
void HogwildUpdateSgdL1(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());

// The sum of squares: floats within blocks of 4096, doubles above them.
double SumOfSquares(int64_t count, const float* values, Simd simd = BestSimd());

}  // namespace millrace

#endif  // MILLRACE_SOLVER_HOGWILD_UPDATE_H_
