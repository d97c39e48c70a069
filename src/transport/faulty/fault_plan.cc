#include "transport/faulty/fault_plan.h"

#include "transport/check_range.h"

namespace millrace::inline transport {
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
