// Carries out operations (chunk_op.h) in host memory, on the calling thread, with
// vectors of the given instruction set. No allocation after construction.
//
// What is received is looked at in a first pass, which finds out whether all of it
// is finite; int8 looks how large the diff is. The pass that moves then finds
// that in the first-level cache. (Of merges in a row, each looks at the next one's
// diff on the way.) It reads each weight once, right before it writes
// it, and takes all of that element's results from this one reading, the payload's
// too. Solvers are kept out of a chunk by a range lock while an operation writes its
// weights; one whose chunk a solver does not leave is refused with kBusy. What does not fit the
// first pass then stays in w - base: a value beyond the int8 scale is clamped.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_

#include <memory>

#include "base/range_lock.h"
#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/merge_rule.h"

namespace millrace {

// `arrays` stay the caller's and outlive the executor; weights, base and pending
// are not null (a master that never freezes, merges or reads only, may leave base
// and pending null), rule_state is not null if the rule has state. `codec` gives
// the threshold of kSparse. `simd` must be supported. `lock`: of the array that the weights are
// in, outlives the executor; null where no solver writes them meanwhile. Throws Error where it has
// no place left.
std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                const CodecConfig& codec = {},
                                                const MergeRuleConfig& rule = {},
                                                Simd simd = BestSimd(), RangeLock* lock = nullptr);

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_
