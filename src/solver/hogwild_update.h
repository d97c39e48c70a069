// The host's kernels of the update rules: one pass over memory that other solver threads write at
// the same time.
//
// They use plain loads and stores, without locks or atomic instructions. If two solvers write the
// same weight at the same moment, one update may be lost, which Hogwild accepts (Recht, Re, Wright,
// Niu: "Hogwild!", NIPS 2011). ForLockedBlocks (base/threads/range_lock.h) excludes exchanges
// meanwhile. The names of functions that access shared weights begin with HogwildUpdate: the thread
// sanitizer's suppressions match this prefix.
#ifndef MILLRACE_SOLVER_HOGWILD_UPDATE_H_
#define MILLRACE_SOLVER_HOGWILD_UPDATE_H_

#include <cstdint>

#include "base/simd.h"
#include "solver/sgd_step.h"

namespace millrace::inline solver {

// Takes one step (sgd_step.h) for `count` elements at any alignment. `weights` may be shared;
// `gradients` and `history` belong to the caller; the three arrays do not overlap. This processor
// must support `simd`. Memory traffic is 20 bytes per element.
void HogwildUpdateSgdL2(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());
void HogwildUpdateSgdL1(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());

// The sum of squares, in float within blocks of 4096 and in double across them.
double SumOfSquares(int64_t count, const float* values, Simd simd = BestSimd());

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_HOGWILD_UPDATE_H_
