#include "base/threads/range_lock.h"

#include <algorithm>
#include <thread>

#include "base/error.h"

namespace millrace::inline base {
namespace {

constexpr int64_t kUnitFloats = 16;

uint64_t BeginOf(uint64_t range) { return range >> 32; }
uint64_t EndOf(uint64_t range) { return range & UINT32_MAX; }

// An empty range (0) overlaps nothing.
bool Overlap(uint64_t a, uint64_t b) { return BeginOf(a) < EndOf(b) && BeginOf(b) < EndOf(a); }

bool IsIn(const RangeSlot& slot, uint64_t range) { return Overlap(slot.range.load(), range); }

void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Claims a free slot. `end` is raised before the slot publishes its first range. A holder that
// publishes a range and then still reads the old `end` is therefore seen by the new slot's holder.
RangeSlot& Register(std::span<RangeSlot> slots, std::atomic<uint32_t>* end, uint32_t owner,
                    const char* what) {
  for (uint32_t i = 0; i < slots.size(); ++i) {
    uint32_t free = 0;
    if (!slots[i].owner.compare_exchange_strong(free, owner)) continue;
    uint32_t seen = end->load();
    while (seen <= i && !end->compare_exchange_weak(seen, i + 1)) {
    }
    return slots[i];
  }
  throw Error("all ", slots.size(), " places for ", what, " of the weights are taken");
}

void Unregister(RangeSlot* slot) {
  slot->range.store(0);
  slot->owner.store(0);
}

}  // namespace

RangeLock::RangeLock(const float* array)
    : own_(std::make_unique<RangeLockTable>()), table_(*own_), array_(array), owner_(1) {}

RangeLock::RangeLock(RangeLockTable* table, const float* array, uint32_t owner,
                     std::function<bool(uint32_t)> is_alive)
    : table_(*table), array_(array), owner_(owner), is_alive_(std::move(is_alive)) {}

RangeLock::~RangeLock() = default;

// Rounds outward to whole units, so adjacent ranges within one unit count as overlapping.
uint64_t RangeLock::RangeOf(const float* begin, int64_t count) const {
  const int64_t first = begin - array_, end = first + count;
  return static_cast<uint64_t>(first / kUnitFloats) << 32 |
         static_cast<uint64_t>((end + kUnitFloats - 1) / kUnitFloats);
}

std::span<RangeSlot> RangeLock::ExclusiveSlots() const {
  const uint32_t end = table_.exclusive_end.load();
  return {table_.exclusive, std::min<size_t>(end, RangeLockTable::kExclusive)};
}

std::span<RangeSlot> RangeLock::SharedSlots() const {
  const uint32_t end = table_.shared_end.load();
  return {table_.shared, std::min<size_t>(end, RangeLockTable::kShared)};
}

bool RangeLock::ClearIfDead(RangeSlot* slot) const {
  const uint32_t owner = slot->owner.load();
  uint64_t range = slot->range.load();
  const bool owner_alive = owner == owner_ || !is_alive_ || (owner != 0 && is_alive_(owner));
  return range != 0 && !owner_alive && slot->range.compare_exchange_strong(range, 0);
}

// ---- Shared -----------------------------------------------------------------

RangeLock::Shared::Shared(RangeLock* lock)
    : lock_(*lock),
      slot_(Register(lock->table_.shared, &lock->table_.shared_end, lock->owner_, "solvers")) {}

RangeLock::Shared::~Shared() { Unregister(&slot_); }

bool RangeLock::Shared::TryLock(const float* begin, int64_t count) {
  return TryPublish(lock_.RangeOf(begin, count));
}

bool RangeLock::Shared::TryPublish(uint64_t range) {
  slot_.range.store(range);
  for (const RangeSlot& other : lock_.ExclusiveSlots()) {
    if (!IsIn(other, range)) continue;
    Unlock();
    return false;
  }
  return true;
}

void RangeLock::Shared::Lock(const float* begin, int64_t count) {
  const uint64_t range = lock_.RangeOf(begin, count);
  while (!TryPublish(range)) {
    for (RangeSlot& other : lock_.ExclusiveSlots()) {
      for (int pauses = 0; IsIn(other, range); ++pauses) {
        if (pauses < Exclusive::kPauses) {
          Pause();
        } else if (!lock_.ClearIfDead(&other)) {
          std::this_thread::yield();  // descheduled, perhaps for lack of this processor
        }
      }
    }
  }
}

void RangeLock::Shared::Unlock() { slot_.range.store(0, std::memory_order_release); }

// ---- Exclusive --------------------------------------------------------------

RangeLock::Exclusive::Exclusive(RangeLock* lock)
    : lock_(*lock),
      slot_(Register(lock->table_.exclusive, &lock->table_.exclusive_end, lock->owner_,
                     "exchanges")) {}

RangeLock::Exclusive::~Exclusive() { Unregister(&slot_); }

bool RangeLock::Exclusive::TryLock(const float* begin, int64_t count, int pauses) {
  const uint64_t range = lock_.RangeOf(begin, count);
  const auto left = [&](RangeSlot& other) {
    while (IsIn(other, range)) {
      if (pauses-- <= 0 && !lock_.ClearIfDead(&other)) return false;
      Pause();
    }
    return true;
  };
  for (;;) {
    slot_.range.store(range);
    const std::span<RangeSlot> all = lock_.ExclusiveSlots();
    const auto own = all.begin() + (&slot_ - all.data());
    const auto first =
        std::find_if(all.begin(), own, [&](const RangeSlot& other) { return IsIn(other, range); });
    if (first == own) {
      // A lower slot that enters the range from now on sees this slot and withdraws.
      if (std::all_of(own + 1, all.end(), left) && std::ranges::all_of(lock_.SharedSlots(), left)) {
        return true;
      }
      break;
    }
    slot_.range.store(0);
    if (!left(*first)) break;
  }
  Unlock();
  return false;
}

void RangeLock::Exclusive::Unlock() { slot_.range.store(0, std::memory_order_release); }

void ReleaseRangesOf(RangeLockTable* table, uint32_t owner) {
  const auto release = [owner](RangeSlot& slot) {
    if (slot.owner.load() == owner) Unregister(&slot);
  };
  std::ranges::for_each(table->exclusive, release);
  std::ranges::for_each(table->shared, release);
}

}  // namespace millrace::inline base
