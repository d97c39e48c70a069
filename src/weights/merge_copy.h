// A copy of shared weights that a program changes with a step of its own (ClusterMember::Merge).
#ifndef MILLRACE_WEIGHTS_MERGE_COPY_H_
#define MILLRACE_WEIGHTS_MERGE_COPY_H_

#include <cstdint>

namespace millrace::inline weights {

// Adds to `count` shared weights what `copy` has gained over `base`, and sets both to the sum; a
// weight that nobody else has changed becomes exactly that of `copy`. The caller holds the lock of
// the weights; the arrays do not overlap.
void MergeCopy(int64_t count, float* shared, float* copy, float* base);

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_MERGE_COPY_H_
