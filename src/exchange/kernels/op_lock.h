// Exclusive range lock of a host executor. While it is held, no solver's update is between its load
// and its store in these weights (docs/exchange.md).
#ifndef MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_
#define MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_

#include <algorithm>
#include <optional>
#include <span>

#include "base/threads/range_lock.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace::inline exchange {

// Locks the chunks of several operations at once, because consecutive operations usually affect
// adjacent chunks. Not thread-safe.
class OpLock {
 public:
  // Maximum size of a locked range. Bounds the time for which a solver may have to wait.
  static constexpr int64_t kMaxFloats = 32768;

  // `lock` is the range lock of the array that contains the weights and must outlive this object.
  // Null means that no other thread writes them.
  OpLock(const ReplicaArrays& arrays, RangeLock* lock) : arrays_(arrays) {
    if (lock == nullptr) {
      end_ = arrays.chunks();
    } else {
      holder_.emplace(lock);
    }
  }

  // True if the first of `ops` may be executed now; takes the lock if necessary. False if a solver
  // is writing its weights.
  bool Admits(std::span<const ChunkOp> ops) {
    return Holds(ops[0].chunk) || !WritesWeights(ops[0].kind) || LockFor(ops);
  }
  // Call after all operations are done.
  void Release() {
    if (!holder_ || begin_ == end_) return;
    begin_ = end_ = 0;
    holder_->Unlock();
  }

 private:
  bool Holds(int64_t chunk) const { return chunk >= begin_ && chunk < end_; }

  __attribute__((noinline)) bool LockFor(std::span<const ChunkOp> ops) {
    Release();
    const int64_t most = std::max<int64_t>(kMaxFloats / arrays_.chunk_floats, 1);
    int64_t begin = ops[0].chunk, end = begin + 1;
    size_t together = 1;
    for (; alone_ == 0 && together < ops.size(); ++together) {
      const int64_t chunk = ops[together].chunk;
      if (std::max(end, chunk + 1) - std::min(begin, chunk) > most) break;
      begin = std::min(begin, chunk);
      end = std::max(end, chunk + 1);
    }
    // A holder that stayed in the combined range for all pauses is not running: do not wait again.
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
  int64_t begin_ = 0, end_ = 0;  // locked chunks
  size_t alone_ = 0;             // number of next operations that are locked one at a time
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_OP_LOCK_H_
