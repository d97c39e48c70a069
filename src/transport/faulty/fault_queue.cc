#include "transport/faulty/fault_queue.h"

#include <algorithm>

#include "base/threads/cache_line.h"
#include "transport/check_range.h"

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

namespace {

constexpr int64_t kMaxDelayNs = int64_t{3600} * 1'000'000'000;
constexpr int64_t kMaxHeld = 1 << 16;

template <typename Value>
void Expect(const char* field, Value value, Value least, Value most) {
  CheckRange("faulty", field, value, least, most, "a number");
}

void Validate(const FaultRates& rates) {
  Expect("drop", rates.drop, 0., 1.);
  Expect("duplicate", rates.duplicate, 0., 1.);
  Expect("reorder", rates.reorder, 0., 1.);
  Expect("delay", rates.delay, 0., 1.);
  Expect("truncate", rates.truncate, 0., 1.);
  Expect("corrupt", rates.corrupt, 0., 1.);
}

}  // namespace

const FaultRates& FaultPlan::Rates(Direction direction, NodeId peer) const {
  const auto& by_peer = direction == Direction::kSend ? send_peer : receive_peer;
  const auto found = by_peer.find(peer);
  if (found != by_peer.end()) return found->second;
  return direction == Direction::kSend ? send : receive;
}

void FaultPlan::Validate() const {
  millrace::Validate(send);
  millrace::Validate(receive);
  for (const auto& [peer, rates] : send_peer) millrace::Validate(rates);
  for (const auto& [peer, rates] : receive_peer) millrace::Validate(rates);
  Expect("delay_max_ns", delay_max_ns, int64_t{0}, kMaxDelayNs);
  Expect("delay_min_ns", delay_min_ns, int64_t{0}, delay_max_ns);
  Expect("reorder_frames", reorder_frames, int64_t{1}, kMaxHeld);
  Expect("hold_frames", hold_frames, int64_t{1}, kMaxHeld);
}

FaultDecision Decide(const FaultPlan& plan, const FaultRates& rates, uint64_t bytes, Rng* rng) {
  FaultDecision decision;
  decision.drop = rng->Uniform() < rates.drop;
  decision.duplicate = rng->Uniform() < rates.duplicate;
  decision.reorder = rng->Uniform() < rates.reorder;
  decision.delay = rng->Uniform() < rates.delay;
  decision.truncate = rng->Uniform() < rates.truncate;
  decision.corrupt = rng->Uniform() < rates.corrupt;
  decision.delay_ns =
      plan.delay_min_ns +
      static_cast<int64_t>(rng->Below(plan.delay_max_ns - plan.delay_min_ns + uint64_t{1}));
  decision.pass_frames = 1 + rng->Below(plan.reorder_frames);
  decision.length = rng->Below(bytes ? bytes : 1);
  if (bytes == 0) decision.truncate = false;
  const uint64_t left = decision.truncate ? decision.length : bytes;
  decision.position = rng->Below(left ? left : 1);
  decision.mask = static_cast<uint8_t>(1 + rng->Below(255));
  if (left == 0) decision.corrupt = false;
  return decision;
}

}  // namespace millrace::inline transport
