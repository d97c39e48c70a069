// How a node leaves its cluster: for which peers it waits, how long, and which node writes the
// final snapshot. Pure logic on injected peers and time; train/cluster/cluster_session.h drives it.
//
// A node that is the gateway of other members, or their leader, waits until those have left. Then
// it hands over the progress that the others lack, and leaves. The last member writes the final
// snapshot. It keeps replying for a moment, so that the nodes that left before learn that their
// leave is complete.
//
// After a signal, a node completes all of this within kHandOverNs; progress that is not handed over
// by then is lost. If all nodes were stopped, the final snapshot owner
// (TerminationDetector::UpdateStopped) stays, and writes the snapshot even if other members are
// still present.
#ifndef MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_
#define MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "cluster/cluster_peers.h"
#include "cluster/termination_detector.h"

namespace millrace::inline cluster {

// Why a node leaves.
enum class LeaveReason {
  kEnd,      // the run has ended
  kStopped,  // a signal ended the run before it was complete
  kEarly,    // its program leaves a run with which others go on
};

// Not thread-safe.
class GracefulLeave {
 public:
  // Deadlines after the signal: to learn that the other nodes were stopped as well; to hand over;
  // to reply to peers. Each deadline is at least the minimum below after Begin, for solvers whose
  // last iterations end late.
  static constexpr int64_t kTurnNs = 500'000'000, kHandOverNs = 1'500'000'000,
                           kAnswerEndNs = 1'800'000'000;
  // Minimum times from Begin to the same deadlines.
  static constexpr int64_t kMinTurnNs = 250'000'000, kMinHandOverNs = 500'000'000,
                           kMinAnswerNs = 800'000'000;
  // Timeouts without a signal: for dependent nodes, for each of the other phases, and for replies
  // to peers. A node that leaves early waits for no other node, and has kFinishNs to hand over.
  static constexpr int64_t kFinishNs = 30'000'000'000, kLeaveNs = 1'500'000'000,
                           kAnswerNs = 1'000'000'000;

  // `stopped_ns`: time of the stop signal, or none before a signal; it may appear at any time.
  // Both pointers outlive this object.
  GracefulLeave(ClusterPeers* peers, std::function<std::optional<int64_t>()> stopped_ns,
                const Clock* clock);

  // Starts leaving, after the solvers have ended. `termination` publishes this node's state and
  // outlives this object.
  void Begin(TerminationDetector* termination, LeaveReason reason);
  // Replaces Begin for a node that was never in sync.
  void BeginUnsynced();
  // Call every few ms until it returns true: the node has left, is the last member, or has given up
  // waiting.
  bool Step();
  // This node writes the final snapshot: the others have left or must not write it. Valid after
  // Step has returned true.
  bool last() const { return last_; }
  // This node left at a deadline, and the others may lack some of its progress. Valid after Step
  // has returned true.
  bool timed_out() const { return timed_out_; }

  // Call every few ms after that and after the snapshot, until it returns true: no peer needs
  // replies any more, or the deadline has passed.
  bool HasReplied();

 private:
  enum class Phase { kWaiting, kPublishing, kLeaving, kOver };

  bool stopped() const { return reason_ == LeaveReason::kStopped; }
  bool MustStay(int64_t now) const;
  void Enter(Phase phase, int64_t now);
  void End(bool last);
  void EndGone();
  // Whether the current phase has timed out: after `ns` unless the run was stopped, and always at
  // the hand-over deadline of a signal.
  bool HasTimedOut(int64_t now, int64_t ns) const;
  // Later of `ns` after the signal and `min_ns` after Begin; INT64_MAX without a signal.
  int64_t AfterSignal(int64_t ns, int64_t min_ns) const;

  ClusterPeers& peers_;
  const std::function<std::optional<int64_t>()> stopped_ns_;
  const Clock& clock_;
  TerminationDetector* termination_ = nullptr;  // null: never in sync
  LeaveReason reason_ = LeaveReason::kEnd;
  int64_t begin_ns_ = 0;
  Phase phase_ = Phase::kOver;
  int64_t entered_ns_ = 0;  // start of the current phase
  TerminationDetector::FinalSnapshotOwner snapshot_owner_ =
      TerminationDetector::FinalSnapshotOwner::kNobody;
  bool last_ = false, timed_out_ = false;
  int64_t answering_ns_ = -1;  // start of the reply phase; -1: not started
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_
