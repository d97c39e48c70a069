// The host's kernels of the update rules: one pass over memory that other solver threads write at
// the same time.
//
// They use plain loads and stores, without locks or atomic instructions. If two solvers write the
// same weight at the same moment, one update may be lost, which Hogwild accepts (Recht, Re, Wright,
// Niu: "Hogwild!", NIPS 2011). HogwildBlocks excludes exchanges meanwhile. The names of functions
// that access shared weights begin with HogwildUpdate: the thread sanitizer's suppressions match
// this prefix.
#ifndef MILLRACE_SOLVER_HOGWILD_UPDATE_H_
#define MILLRACE_SOLVER_HOGWILD_UPDATE_H_

#include <algorithm>
#include <cstdint>

#include "base/range_lock.h"
#include "base/simd.h"
#include "solver/sgd_step.h"

namespace millrace {

// Calls update(offset, count) for all elements of weights[offset, offset + count). With a lock, it
// does so in blocks of about a microsecond each, during which `holder` holds their range, so that
// an exclusive holder does not wait for long. Without one, in a single call: concurrent stores by
// exchanges may then be lost.
template <typename Update>
void HogwildBlocks(RangeLock::Shared* holder, const float* weights, int64_t offset, int64_t count,
                   Update update) {
  constexpr int64_t kBlock = 4096;  // floats
  if (holder == nullptr) return update(offset, count);
  const int64_t end = offset + count;
  for (; offset < end; offset += kBlock) {
    const int64_t block = std::min(kBlock, end - offset);
    holder->Lock(weights + offset, block);
    update(offset, block);
    holder->Unlock();
  }
}

// Takes one step (sgd_step.h) for `count` elements at any alignment. `weights` may be shared;
// `gradients` and `history` belong to the caller; the three arrays do not overlap. This processor
// must support `simd`. Memory traffic is 20 bytes per element.
void HogwildUpdateSgdL2(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());
void HogwildUpdateSgdL1(const SgdStep& step, int64_t count, const float* gradients, float* history,
                        float* weights, Simd simd = BestSimd());

// The sum of squares, in float within blocks of 4096 and in double across them.
double SumOfSquares(int64_t count, const float* values, Simd simd = BestSimd());

}  // namespace millrace

#endif  // MILLRACE_SOLVER_HOGWILD_UPDATE_H_
