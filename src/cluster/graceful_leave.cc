#include "cluster/graceful_leave.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace millrace::inline cluster {

using FinalSnapshotOwner = TerminationDetector::FinalSnapshotOwner;

GracefulLeave::GracefulLeave(ClusterPeers* peers,
                             std::function<std::optional<int64_t>()> stopped_ns, const Clock* clock)
    : peers_(*peers), stopped_ns_(std::move(stopped_ns)), clock_(*clock) {}

void GracefulLeave::Begin(TerminationDetector* termination, LeaveReason reason) {
  termination_ = termination;
  reason_ = reason;
  begin_ns_ = clock_.NowNs();
  // A node to which others hand over flushes as well: it answers them at once.
  peers_.Flush();
  Enter(Phase::kWaiting, begin_ns_);
}

void GracefulLeave::BeginUnsynced() {
  begin_ns_ = clock_.NowNs();
  Enter(Phase::kLeaving, begin_ns_);
}

void GracefulLeave::Enter(Phase phase, int64_t now) {
  phase_ = phase;
  entered_ns_ = now;
  if (phase == Phase::kLeaving) peers_.Leave();
}

bool GracefulLeave::Step() {
  const int64_t now = clock_.NowNs();
  if (stopped()) snapshot_owner_ = termination_->UpdateStopped(peers_.is_leader(), true);
  if (phase_ == Phase::kWaiting && !MustStay(now)) {
    const bool waited_in_vain =
        reason_ == LeaveReason::kEnd && peers_.has_dependents() && !stopped_ns_();
    if (peers_.alone()) {
      End(true);
    } else if (stopped() && snapshot_owner_ == FinalSnapshotOwner::kThis) {
      LOG(WARNING) << "Waits no longer for " << peers_.members() - 1
                   << " other nodes, which stop too; saves without what they still have";
      End(true);
    } else if (waited_in_vain && peers_.is_leader()) {
      LOG(WARNING) << peers_.members() - 1 << " other nodes have not finished after "
                   << kFinishNs / 1'000'000'000 << " s; going on without what they still have";
      End(true);
    } else {
      // The final state that this node has published must be acknowledged before it leaves.
      Enter(stopped() ? Phase::kLeaving : Phase::kPublishing, now);
    }
  }
  if (phase_ == Phase::kPublishing && (peers_.all_acked() || HasTimedOut(now, kLeaveNs))) {
    Enter(Phase::kLeaving, now);
  }
  const int64_t limit_ns = reason_ == LeaveReason::kEarly ? kFinishNs : kLeaveNs;
  if (phase_ == Phase::kLeaving && (peers_.left() || peers_.alone() || HasTimedOut(now, limit_ns)))
    EndGone();
  return phase_ == Phase::kOver;
}

// Whether this node still waits for others before it leaves.
bool GracefulLeave::MustStay(int64_t now) const {
  if (peers_.alone() || reason_ == LeaveReason::kEarly) return false;
  if (!stopped()) return peers_.has_dependents() && !HasTimedOut(now, kFinishNs);
  if (snapshot_owner_ == FinalSnapshotOwner::kThis) return !HasTimedOut(now, kHandOverNs);
  return peers_.has_dependents() && now < AfterSignal(kTurnNs, kMinTurnNs);
}

void GracefulLeave::EndGone() {
  const bool synced = termination_ != nullptr;
  // Nodes that leave at the same time may leave this one as the last member.
  if (synced && peers_.alone()) return End(true);
  if (stopped() && !peers_.left() && snapshot_owner_ == FinalSnapshotOwner::kThis) {
    LOG(WARNING) << "all nodes were stopped; this node writes the final snapshot";
    return End(true);
  }
  // At the end of a schedule, equal replicas include all progress of all nodes, even if the others
  // have not yet confirmed that this node may leave.
  timed_out_ =
      synced && !peers_.delivered() && (reason_ != LeaveReason::kEnd || !termination_->same());
  if (timed_out_) {
    LOG(WARNING) << "left the cluster at the deadline; unsent progress of this node is lost";
  } else if (synced) {
    LOG(INFO) << "Left the cluster; the other nodes have all that this one did";
  }
  End(false);
}

void GracefulLeave::End(bool last) {
  last_ = last;
  phase_ = Phase::kOver;
  if (stopped() && !last) termination_->PublishGone();
}

bool GracefulLeave::HasReplied() {
  if (!last_ || peers_.idle()) return true;
  const int64_t now = clock_.NowNs();
  if (answering_ns_ < 0) answering_ns_ = now;
  return now >= std::min(answering_ns_ + kAnswerNs, AfterSignal(kAnswerEndNs, kMinAnswerNs));
}

bool GracefulLeave::HasTimedOut(int64_t now, int64_t ns) const {
  const int64_t end = stopped() ? INT64_MAX : entered_ns_ + ns;
  return now >= std::min(end, AfterSignal(kHandOverNs, kMinHandOverNs));
}

int64_t GracefulLeave::AfterSignal(int64_t ns, int64_t min_ns) const {
  const std::optional<int64_t> signal = stopped_ns_();
  return signal ? std::max(*signal + ns, begin_ns_ + min_ns) : INT64_MAX;
}

}  // namespace millrace::inline cluster
