#include "weights/iteration_clock.h"

#include <glog/logging.h>

#include <algorithm>

#include "base/error.h"

namespace millrace::inline weights {

IterationClock::IterationClock()
    : own_(std::make_unique<ShmHeader>()), header_(own_.get()), owner_(1) {}

IterationClock::IterationClock(ShmHeader* header, uint32_t owner)
    : header_(header), owner_(owner) {}

IterationClock::~IterationClock() = default;

void IterationClock::StartAt(int64_t iteration) {
  CHECK_GE(iteration, 0);
  for (ClockSlot& slot : header_->solvers) slot.done = 0;
  header_->clock.start = iteration;
  header_->clock.claimed = iteration;
  header_->clock.remote = 0;
}

std::optional<int64_t> IterationClock::Claim(int64_t limit) {
  std::atomic<int64_t>& claimed = header_->clock.claimed;
  int64_t next = claimed.load(std::memory_order_relaxed);
  while (next < limit) {
    if (claimed.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel)) return next;
  }
  return std::nullopt;
}

int IterationClock::RegisterSolver() {
  for (int i = 0; i < kMaxSolvers; ++i) {
    uint32_t free = 0;
    if (header_->solvers[i].owner.compare_exchange_strong(free, owner_)) return i;
  }
  throw Error("all ", kMaxSolvers, " solver slots of the shared weights are taken");
}

void IterationClock::Done(int slot) {
  DCHECK(slot >= 0 && slot < kMaxSolvers) << slot;
  // Only the slot's owner writes the counter. The release order makes the writes of the completed
  // iteration visible to threads that read the count.
  header_->solvers[slot].done.fetch_add(1, std::memory_order_release);
}

void IterationClock::ReleaseSolver(int slot) {
  CHECK(slot >= 0 && slot < kMaxSolvers) << slot;
  header_->solvers[slot].unmerged = 0;
  header_->solvers[slot].owner = 0;
}

void IterationClock::SetUnmerged(int slot, int64_t iterations) {
  DCHECK(slot >= 0 && slot < kMaxSolvers) << slot;
  header_->solvers[slot].unmerged.store(iterations, std::memory_order_release);
}

int64_t IterationClock::TakeRemote(int64_t iterations) {
  CHECK_GE(iterations, 0);
  header_->clock.remote.fetch_add(iterations);
  return header_->clock.claimed.fetch_add(iterations);
}

int64_t IterationClock::global() const {
  // Unsigned arithmetic: a damaged file may hold any values, and signed overflow is undefined.
  return static_cast<int64_t>(static_cast<uint64_t>(start()) + static_cast<uint64_t>(own()) +
                              static_cast<uint64_t>(header_->clock.remote.load()));
}

int64_t IterationClock::own() const {
  uint64_t sum = 0;
  for (const ClockSlot& slot : header_->solvers) {
    sum += static_cast<uint64_t>(slot.done.load(std::memory_order_acquire));
  }
  return static_cast<int64_t>(sum);
}

int64_t IterationClock::unmerged() const {
  uint64_t sum = 0;
  for (const ClockSlot& slot : header_->solvers) {
    sum += static_cast<uint64_t>(slot.unmerged.load(std::memory_order_acquire));
  }
  return static_cast<int64_t>(sum);
}

int IterationClock::solvers() const {
  return static_cast<int>(std::count_if(
      std::begin(header_->solvers), std::end(header_->solvers),
      [](const ClockSlot& slot) { return slot.owner.load(std::memory_order_relaxed) != 0; }));
}

int64_t IterationClock::claimed() const { return header_->clock.claimed.load(); }

int64_t IterationClock::start() const { return header_->clock.start.load(); }

void ReleaseSolversOf(ShmHeader* header, uint32_t owner) {
  for (ClockSlot& slot : header->solvers) {
    if (slot.owner != owner) continue;
    slot.unmerged = 0;  // its unmerged iterations are lost
    uint32_t expected = owner;
    slot.owner.compare_exchange_strong(expected, 0);
  }
}

}  // namespace millrace::inline weights
