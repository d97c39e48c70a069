#include "transport/faulty/fault_queue.h"

#include <algorithm>

#include "base/threads/cache_line.h"

namespace millrace::inline transport {
namespace {

// Selects the random stream among those of the same seed.
constexpr uint64_t kFaultStream = 0x6661756c7473;

}  // namespace

FaultQueue::FaultQueue(const FaultPlan& plan, Direction direction, const TransportInfo& info,
                       size_t groups)
    : plan_(plan),
      direction_(direction),
      rng_(plan.seed, {kFaultStream, info.node, static_cast<uint64_t>(direction)}),
      stride_(WholeCacheLines(info.max_frame_bytes)),
      memory_(HostMemory(), stride_ * plan.hold_frames * groups),
      slots_(plan.hold_frames * groups),
      in_use_(PeerLimit(info) + 1) {
  free_.reserve(slots_.size());
  waiting_.reserve(slots_.size());
  for (size_t slot = slots_.size(); slot-- > 0;) {
    slots_[slot].data = memory_.get<std::byte>() + slot * stride_;
    free_.push_back(static_cast<uint32_t>(slot));
  }
}

void FaultQueue::Take(NodeId peer, const OutFrame& frame, bool cut, int64_t now_ns) {
  ++taken_;
  Count(&counts_.taken);
  const FaultDecision decision = Decide(plan_, plan_.Rates(direction_, peer), frame.bytes(), &rng_);
  if (cut || decision.drop) {
    Count(cut ? &counts_.cut : &counts_.dropped);
    return;
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Held& held = slots_[slot];
  held.bytes = frame.bytes();
  held.peer = peer;
  held.decision = decision;
  held.fan_out = false;
  held.fan_next = 0;
  frame.CopyTo(held.data);
  if (decision.truncate) {
    held.bytes = decision.length;
    Count(&counts_.truncated);
  }
  if (decision.corrupt) {
    held.data[decision.position] ^= std::byte{decision.mask};
    Count(&counts_.corrupted);
  }
  Schedule(&held, now_ns);
  ++in_use_[Index(peer)];
  waiting_.push_back(slot);
}

void FaultQueue::Schedule(Held* held, int64_t now_ns) {
  if (held->decision.delay) {
    held->due_ns = now_ns + held->decision.delay_ns;
    held->after_taken = UINT64_MAX;
    Count(&counts_.delayed);
  } else if (held->decision.reorder) {
    held->due_ns = now_ns + plan_.delay_max_ns;
    held->after_taken = taken_ + held->decision.pass_frames;
    Count(&counts_.reordered);
  } else {
    held->due_ns = INT64_MIN;
    held->after_taken = 0;
  }
}

bool FaultQueue::ScheduleCopy(Held* held, int64_t now_ns) {
  Count(&counts_.passed);
  if (held->decision.truncate || held->decision.corrupt) Count(&counts_.altered);
  if (!held->decision.duplicate) return false;
  held->decision.duplicate = false;
  Count(&counts_.duplicated);
  held->fan_out = false;
  held->fan_next = 0;
  held->due_ns = now_ns + held->decision.delay_ns;
  held->after_taken = taken_ + held->decision.pass_frames;
  return true;
}

bool FaultQueue::HasReady(int64_t now_ns) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](uint32_t slot) { return IsReady(slots_[slot], now_ns); });
}

void FaultQueue::Free(uint32_t slot) {
  --in_use_[Index(slots_[slot].peer)];
  free_.push_back(slot);
}

int64_t FaultQueue::NextDueNs(int64_t now_ns) const {
  int64_t due = INT64_MAX;
  for (uint32_t slot : waiting_) {
    if (!IsReady(slots_[slot], now_ns)) due = std::min(due, slots_[slot].due_ns);
  }
  return due;
}

}  // namespace millrace::inline transport
