#include "transport/transport.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr int64_t kLongestSleepNs = 5'000'000;

}  // namespace

void Transport::IndexPeers() {
  is_peer_.clear();
  for (NodeId peer : info_.peers) {
    if (peer >= is_peer_.size()) is_peer_.resize(peer + 1);
    is_peer_[peer] = true;
  }
}

SendStatus Transport::Check(const OutFrame& frame) {
  if (frame.bytes() > info_.max_frame_bytes) {
    counters_.Drop(DropReason::kTooLong);
    return SendStatus::kTooLong;
  }
  if (frame.to != kAllNodes && !HasPeer(frame.to)) {
    counters_.Drop(DropReason::kNoSuchNode);
    return SendStatus::kNoSuchNode;
  }
  return SendStatus::kAccepted;
}

const Clock& DefaultClock() {
  static const SteadyClock clock;
  return clock;
}

int64_t SleepNs(const Clock& clock, int64_t deadline_ns) {
  const int64_t now = clock.NowNs();
  // Not a difference: a deadline of INT64_MAX is "never", and now may be negative.
  if (now >= deadline_ns) return 0;
  if (deadline_ns > now + kLongestSleepNs) return kLongestSleepNs;
  return deadline_ns - now;
}

}  // namespace millrace
