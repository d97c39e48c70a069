// How a solver's own weights w and the shared weights s are merged, element by element. `base` is
// the value of w after the last merge.
//
//   Push(share):   u = w - base, the progress that s does not have; s = s + share u; base = w
//   Fetch:         w = s + (w - base); base = s. Progress that has not been pushed stays in w.
//   Elastic(pull): d = pull (w - s); s = s + d; w = w - d; base = w
//
// Elastic is the step of Zhang, Choromanska, LeCun ("Deep learning with Elastic Averaging SGD",
// NIPS 2015, algorithm 1), where the shared weights are the center variable.
//
// s changes by atomic additions: several solvers, also of several processes, lose nothing of each
// other. The caller holds the lock of the shared weights (base/threads/locked_blocks.h), which
// keeps exchanges with other machines apart. If nobody has changed s since it was fetched, Push
// makes it equal to w, so that a single solver trains as on the shared weights themselves, bit for
// bit.
#ifndef MILLRACE_STRATEGY_LOCAL_MERGE_H_
#define MILLRACE_STRATEGY_LOCAL_MERGE_H_

#include <cstdint>

namespace millrace::inline strategy {

// The arrays have `count` elements and do not overlap. `shared` may be changed by others.
void HogwildUpdatePush(float share, int64_t count, float* shared, const float* weights,
                       float* base);
void HogwildUpdateFetch(int64_t count, float* shared, float* weights, float* base);
void HogwildUpdateElastic(float pull, int64_t count, float* shared, float* weights, float* base);

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_LOCAL_MERGE_H_
