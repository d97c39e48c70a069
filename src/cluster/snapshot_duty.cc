#include "cluster/snapshot_duty.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cluster/read_gossip.h"
#include "proto/gossip.pb.h"

namespace millrace::inline cluster {

SnapshotDuty::SnapshotDuty(ClusterPeers* peers, const Clock* clock)
    : peers_(*peers), clock_(*clock) {}

void SnapshotDuty::ExpectSnapshot(int64_t iteration) {
  std::lock_guard lock(mutex_);
  due_ = std::max(due_.load(), iteration);
}

void SnapshotDuty::OnOpened(int64_t iteration) {
  std::lock_guard lock(mutex_);
  Clear(iteration);
}

void SnapshotDuty::OnWritten(int64_t iteration) {
  SnapshotWritten written;
  written.set_iteration(iteration);
  const std::string bytes = written.SerializeAsString();
  peers_.Publish(GossipKey::kSnapshot, std::as_bytes(std::span(bytes)));
}

bool SnapshotDuty::IsDue() {
  if (due_.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.NowNs();
  const bool is_leader = peers_.is_leader();
  if (!is_leader && now < next_read_ns_) return false;
  next_read_ns_ = now + kReadNs;
  for (const auto& [node, written] :
       ReadGossip<SnapshotWritten>(peers_.Read(GossipKey::kSnapshot))) {
    Clear(written.iteration());
  }
  return is_leader && due_ > 0;
}

void SnapshotDuty::Clear(int64_t iteration) {
  if (iteration >= due_) due_ = 0;
}

}  // namespace millrace::inline cluster
