// A lock on ranges of one float array, for writers of two kinds: shared holders do not exclude
// each other (Hogwild solvers), an exclusive holder (an exchange) excludes everybody from its
// range.
//
// Every holder has a slot of its own and publishes there the range that it is in, then reads
// the slots that could conflict, as with hazard pointers. Of two holders that publish
// overlapping ranges at the same time, at least one sees the other's, because both steps are
// sequentially consistent:
//   - a shared holder that sees an exclusive one withdraws, and waits;
//   - an exclusive holder that sees a shared one waits until that one has left, for a bounded
//     number of pauses: a thread that does not run stays in its range. Then it withdraws, and
//     says so;
//   - of two exclusive holders, the one with the higher slot withdraws.
// Without contention, locking costs one atomic exchange in the holder's own cache line, and a
// read of each slot of the other kind in use.
//
// The slots may lie in memory that processes share. A process that dies inside a range leaves it
// published; whoever finds it in the way clears it.
#ifndef MILLRACE_BASE_RANGE_LOCK_H_
#define MILLRACE_BASE_RANGE_LOCK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace millrace {

// Zero: free, and in no range.
struct alignas(64) RangeSlot {
  // The range, in units of 16 floats: begin << 32 | end; 0 = none.
  std::atomic<uint64_t> range;
  std::atomic<uint32_t> owner;  // as RangeLock was told; 0 = free
  char reserved[52];
};

// All zero at first. Standard layout: processes may share one.
struct RangeLockTable {
  static constexpr int kExclusive = 64, kShared = 256;

  // Slots from these on have never been used.
  alignas(64) std::atomic<uint32_t> exclusive_end;
  std::atomic<uint32_t> shared_end;
  RangeSlot exclusive[kExclusive];
  RangeSlot shared[kShared];
};

// A process's handle on a table. Thread-safe.
class RangeLock {
 public:
  // A table of this process alone. Ranges are of `array`, which is compared, never read.
  explicit RangeLock(const float* array);
  // `table` outlives this; `owner` > 0 is this process, and `is_alive` says whether another
  // owner's process runs.
  RangeLock(RangeLockTable* table, const float* array, uint32_t owner,
            std::function<bool(uint32_t owner)> is_alive);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  // A shared holder, used by one thread at a time. Throws Error when all slots are taken.
  class Shared {
   public:
    // `lock` outlives this.
    explicit Shared(RangeLock* lock);
    ~Shared();
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    // `count` > 0 floats from `begin` on; not while it holds some. Waits while an exclusive
    // holder is in them whose process runs.
    void Lock(const float* begin, int64_t count);
    bool TryLock(const float* begin, int64_t count);
    void Unlock();

   private:
    bool TryPublish(uint64_t range);

    RangeLock& lock_;
    RangeSlot& slot_;
  };

  // An exclusive holder, used by one thread at a time. Throws Error when all slots are taken.
  class Exclusive {
   public:
    // Pauses of the processor in which a running thread leaves a range of some KiB.
    static constexpr int kPauses = 512;

    // `lock` outlives this.
    explicit Exclusive(RangeLock* lock);
    ~Exclusive();
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

    // `count` > 0 floats from `begin` on; not while it holds some. False if another holder was in
    // them all of `pauses`.
    bool TryLock(const float* begin, int64_t count, int pauses = kPauses);
    void Unlock();

   private:
    RangeLock& lock_;
    RangeSlot& slot_;
  };

 private:
  uint64_t RangeOf(const float* begin, int64_t count) const;
  std::span<RangeSlot> ExclusiveSlots() const;
  std::span<RangeSlot> SharedSlots() const;
  // Frees the slot's range if its process is gone.
  bool ClearIfDead(RangeSlot* slot) const;

  const std::unique_ptr<RangeLockTable> own_;
  RangeLockTable& table_;
  const float* const array_;
  const uint32_t owner_;
  const std::function<bool(uint32_t)> is_alive_;
};

// Frees the slots of `owner`, whose process is gone or holds no range.
void ReleaseRangesOf(RangeLockTable* table, uint32_t owner);

}  // namespace millrace

#endif  // MILLRACE_BASE_RANGE_LOCK_H_
