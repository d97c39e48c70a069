// Executes operations (chunk_op.h) in host memory, on the calling thread, with vectors of a given
// instruction set. Allocates no memory after construction.
//
// A first pass checks that a received payload is finite; for an int8 diff it also finds the largest
// selected value. The second pass then finds this data in the first-level cache. In a run of
// merges, each merge also checks the payload of the next one. The second pass reads each weight
// once, right before it writes it, and computes all results for the element from this value,
// including the payload.
//
// A range lock keeps solvers out of a chunk while an operation writes its weights. If a solver does
// not leave the chunk, the operation is refused with kBusy. Where solvers change weights between
// the two passes, a selected value may exceed the int8 scale; it is clamped and the rest stays in w
// - base.
#ifndef MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_
#define MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_

#include <memory>

#include "base/simd.h"
#include "base/threads/range_lock.h"
#include "exchange/kernels/chunk_op.h"
#include "exchange/kernels/rules/merge_rule_registry.h"

namespace millrace::inline exchange {

// The caller owns `arrays`, which must outlive the executor. weights, base and pending must not be
// null; a master that only merges and reads, and is never demoted, may leave base and pending null.
// rule_state must not be null if the rule has state. `codec` provides the threshold of kSparse.
// `simd` must be supported. `lock` is the range lock of the array that contains the weights and
// must outlive the executor; it is null if no solver writes them concurrently. Throws Error if the
// lock has no free slot, or the rule or a parameter is not valid.
std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                const CodecConfig& codec = {},
                                                const MergeRuleConfig& rule = {},
                                                Simd simd = BestSimd(), RangeLock* lock = nullptr);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_HOST_EXECUTOR_H_
