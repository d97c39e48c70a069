#include "millrace/transport.h"

#include <algorithm>

#include "base/clock.h"

namespace millrace {
namespace {

constexpr int64_t kMaxSleepNs = 5'000'000;

}  // namespace

void OutFrame::CopyTo(std::byte* out) const {
  std::copy(payload.begin(), payload.end(), std::copy(header.begin(), header.end(), out));
}

void Transport::IndexPeers() {
  is_peer_.assign(PeerLimit(info_), false);
  for (NodeId peer : info_.peers) is_peer_[peer] = true;
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

size_t PeerLimit(const TransportInfo& info) {
  size_t limit = 0;
  for (NodeId peer : info.peers) limit = std::max<size_t>(limit, peer + 1);
  return limit;
}

const Clock& DefaultClock() {
  static const SteadyClock clock;
  return clock;
}

int64_t SleepNs(const Clock& clock, int64_t deadline_ns) {
  const int64_t now = clock.NowNs();
  // Compares before subtracting: `deadline_ns` may be INT64_MAX ("never") and `now` negative.
  if (now >= deadline_ns) return 0;
  if (deadline_ns > now + kMaxSleepNs) return kMaxSleepNs;
  return deadline_ns - now;
}

}  // namespace millrace
