// Lock on ranges of one float array with two modes. Shared holders (Hogwild solvers) do not exclude
// each other. An exclusive holder (an exchange) excludes all other holders from its range.
//
// Every holder owns a slot. To lock a range, it publishes the range in its slot and then reads the
// slots that may conflict, as with hazard pointers. Both steps are sequentially consistent, so of
// two holders that publish overlapping ranges at the same time, at least one sees the other:
//   - A shared holder that sees an exclusive one withdraws its range and waits.
//   - An exclusive holder that sees a shared one waits for it to leave, for a bounded number of
//     pauses, because a descheduled thread stays in its range. Then it withdraws and fails.
//   - Of two exclusive holders, the one with the higher slot index withdraws.
// Without contention, locking costs one atomic exchange in the holder's own cache line and one read
// per slot in use that may conflict.
//
// The slots may lie in memory shared between processes. A process that dies inside a range leaves
// it published; the first holder that conflicts with it clears it.
#ifndef MILLRACE_BASE_THREADS_RANGE_LOCK_H_
#define MILLRACE_BASE_THREADS_RANGE_LOCK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace millrace::inline base {

// All zero: free, without a range.
struct alignas(64) RangeSlot {
  // Range in units of 16 floats: begin << 32 | end. 0 means none.
  std::atomic<uint64_t> range;
  std::atomic<uint32_t> owner;  // owner id passed to RangeLock; 0 = free
  char reserved[52];
};

// Initially all zero. Standard layout, so that processes can share a table.
struct RangeLockTable {
  static constexpr int kExclusive = 64, kShared = 256;

  // One past the highest slot index ever used, per mode.
  alignas(64) std::atomic<uint32_t> exclusive_end;
  std::atomic<uint32_t> shared_end;
  RangeSlot exclusive[kExclusive];
  RangeSlot shared[kShared];
};

// One process's handle to a table. Thread-safe.
class RangeLock {
 public:
  // Creates a table private to this process. `array` only serves to compute offsets and is never
  // read.
  explicit RangeLock(const float* array);
  // `table` must outlive this object. `owner` > 0 identifies this process. `is_alive` reports
  // whether the process of another owner is running; any holder's thread may call it.
  RangeLock(RangeLockTable* table, const float* array, uint32_t owner,
            std::function<bool(uint32_t owner)> is_alive);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  // A shared holder. One thread uses it at a time. The constructor throws Error if no slot is free.
  class Shared {
   public:
    // `lock` must outlive this object.
    explicit Shared(RangeLock* lock);
    ~Shared();
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    // Locks `count` > 0 floats starting at `begin`. The holder must not hold a range already.
    // Lock() blocks while an exclusive holder of a running process is in the range. TryLock() does
    // not block: it returns false if an exclusive holder is in the range.
    void Lock(const float* begin, int64_t count);
    bool TryLock(const float* begin, int64_t count);
    void Unlock();

   private:
    bool TryPublish(uint64_t range);

    RangeLock& lock_;
    RangeSlot& slot_;
  };

  // An exclusive holder. One thread uses it at a time. The constructor throws Error if no slot is
  // free.
  class Exclusive {
   public:
    // Number of PAUSE instructions within which a running thread leaves a range of some KiB.
    static constexpr int kPauses = 512;

    // `lock` must outlive this object.
    explicit Exclusive(RangeLock* lock);
    ~Exclusive();
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

    // Locks `count` > 0 floats starting at `begin`. The holder must not hold a range already.
    // Returns false if a conflicting holder remains after `pauses` pauses in total.
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
  // Clears the slot's range if the owning process has died. Returns true if it did so.
  bool ClearIfDead(RangeSlot* slot) const;

  const std::unique_ptr<RangeLockTable> own_;
  RangeLockTable& table_;
  const float* const array_;
  const uint32_t owner_;
  const std::function<bool(uint32_t)> is_alive_;
};

// The shared lock that a solver's updates of the weights hold. Public headers declare the name.
class UpdateLock final : public RangeLock::Shared {
 public:
  using Shared::Shared;
};

// Frees all slots of `owner`. Its process must have died or hold no range.
void ReleaseRangesOf(RangeLockTable* table, uint32_t owner);

// Calls work(offset, count) for all elements of weights[offset, offset + count). With a lock, it
// does so in blocks that an exclusive holder need not wait for long, of about a microsecond each,
// during which `holder` holds their range. Without one, in a single call: concurrent stores by
// exchanges may then be lost.
template <typename Work>
void ForLockedBlocks(RangeLock::Shared* holder, const float* weights, int64_t offset, int64_t count,
                     Work work) {
  constexpr int64_t kBlock = 4096;  // floats
  if (holder == nullptr) return work(offset, count);
  const int64_t end = offset + count;
  for (; offset < end; offset += kBlock) {
    const int64_t block = std::min(kBlock, end - offset);
    holder->Lock(weights + offset, block);
    work(offset, block);
    holder->Unlock();
  }
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_THREADS_RANGE_LOCK_H_
