// Copies of weights that solvers and executors may write at the same time.
#ifndef MILLRACE_WEIGHTS_COPY_WEIGHTS_H_
#define MILLRACE_WEIGHTS_COPY_WEIGHTS_H_

#include <cstdint>

namespace millrace::inline weights {

// Copies `count` weights to `to`, which does not overlap them. Each value is one that the weight
// had during the call.
void HogwildReadWeights(int64_t count, const float* weights, float* to);

// For a copy that a program changes with a step of its own (ClusterMember::Merge): adds to `count`
// shared weights what `copy` has gained over `base`, and sets both to the sum; a weight that nobody
// else has changed becomes exactly that of `copy`. The caller holds the lock of the weights; the
// arrays do not overlap.
void MergeCopy(int64_t count, float* shared, float* copy, float* base);

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_COPY_WEIGHTS_H_
