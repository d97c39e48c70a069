// What a host executor holds of the weights while it carries out operations: exclusively, so that
// no solver's update is between its load and its store there (docs/exchange.md).
#ifndef MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_
#define MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_

#include <algorithm>
#include <optional>
#include <span>

#include "base/range_lock.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace {

// Locks ranges of several chunks, as operations come in their order more often than not. For one
// thread.
class OpLock {
 public:
  // The chunks of a range together: what a solver may have to wait for.
  static constexpr int64_t kMostFloats = 32768;

  // `lock`: of the array that the weights are in; outlives this. Null: nobody else writes them.
  OpLock(const ReplicaArrays& arrays, RangeLock* lock) : arrays_(arrays) {
    if (lock == nullptr) {
      end_ = arrays.chunks();
    } else {
      holder_.emplace(lock);
    }
  }

  // Whether the first of `ops` may be carried out now. If not, a solver is in its weights.
  bool Admits(std::span<const ChunkOp> ops) {
    return Holds(ops[0].chunk) || !WritesWeights(ops[0].kind) || LockFor(ops);
  }
  // When all are done.
  void Release() {
    if (!holder_ || begin_ == end_) return;
    begin_ = end_ = 0;
    holder_->Unlock();
  }

 private:
  bool Holds(int64_t chunk) const { return chunk >= begin_ && chunk < end_; }

  __attribute__((noinline)) bool LockFor(std::span<const ChunkOp> ops) {
    Release();
    const int64_t most = std::max<int64_t>(kMostFloats / arrays_.chunk_floats, 1);
    int64_t begin = ops[0].chunk, end = begin + 1;
    size_t together = 1;
    for (; alone_ == 0 && together < ops.size(); ++together) {
      const int64_t chunk = ops[together].chunk;
      if (std::max(end, chunk + 1) - std::min(begin, chunk) > most) break;
      begin = std::min(begin, chunk);
      end = std::max(end, chunk + 1);
    }
    // Whoever was in the range of several for so long does not run.
    const int pauses = alone_ > 0 ? 0 : RangeLock::Exclusive::kPauses;
    if (alone_ > 0) --alone_;
    if (TryLock(begin, end, pauses)) return true;
    if (together == 1) return false;
    alone_ = together - 1;
    return TryLock(ops[0].chunk, ops[0].chunk + 1, 0);
  }

  bool TryLock(int64_t begin, int64_t end, int pauses) {
    const int64_t first = begin * arrays_.chunk_floats;
    const int64_t count = std::min(end * arrays_.chunk_floats, arrays_.size) - first;
    if (!holder_->TryLock(arrays_.weights + first, count, pauses)) return false;
    begin_ = begin;
    end_ = end;
    return true;
  }

  const ReplicaArrays arrays_;
  std::optional<RangeLock::Exclusive> holder_;
  int64_t begin_ = 0, end_ = 0;  // chunks that it holds
  size_t alone_ = 0;             // operations that get a range of their own
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_
