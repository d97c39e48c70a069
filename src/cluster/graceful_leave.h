// How a node leaves its cluster: who waits for whom, how long, and which node has the last word
// and saves. Pure logic on the time that it is told; cluster_part.h drives it.
//
// A node that others send through, or that leads them, waits for these; then it hands over what
// the others do not have yet, and goes. The last one has the last word, and answers for a moment
// more, until those that left have heard that they may.
//
// A node that was stopped by a signal has until kHandOverNs after the signal for all of that.
// What it has not handed over then is lost. If all nodes were stopped, the one that
// TerminationDetector::LookStopped names stays, and has the last word then even if others are still
// there.
#ifndef MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_
#define MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "cluster/termination_detector.h"

namespace millrace {

// What Departure asks a cluster for (cluster/cluster.h says what each is); tests put another in
// its place.
struct LeavePeers {
  std::function<bool()> is_leader, has_dependents, alone, all_acked, left, delivered, quiet;
  std::function<uint32_t()> members;
  std::function<void()> leave;
};
// `cluster` outlives it.
LeavePeers LeavePeersOf(Cluster* cluster);

// Not thread-safe.
class GracefulLeave {
 public:
  // After the signal: how long the others are given to say that they were stopped too; until when
  // the node hands over; until when it answers. Each a little later where the last iterations of
  // the solvers end too late for that.
  static constexpr int64_t kTurnNs = 500'000'000, kHandOverNs = 1'500'000'000,
                           kAnswerEndNs = 1'800'000'000;
  // From the end of those iterations at least.
  static constexpr int64_t kLeastTurnNs = 250'000'000, kLeastHandOverNs = 500'000'000,
                           kLeastAnswerNs = 800'000'000;
  // Without a signal: for others that depend on this node, for each of the other steps, and
  // to answer.
  static constexpr int64_t kFinishNs = 30'000'000'000, kLeaveNs = 1'500'000'000,
                           kAnswerNs = 1'000'000'000;

  // `stopped_ns`: when a signal to stop came, none if none has yet; it may come at any time.
  // `clock` outlives this object.
  GracefulLeave(LeavePeers peers, std::function<std::optional<int64_t>()> stopped_ns,
                const Clock* clock);

  // The solvers have ended; `ending`, which outlives this object, is what the node tells of
  // that. `stopped`: before the run was complete.
  void Begin(TerminationDetector* ending, bool stopped);
  // Instead of Begin for a node that never was in sync.
  void BeginUnsynced();
  // To be called every few ms until it returns true: the node has left, or is the last one, or
  // waits no longer.
  bool Step();
  // This node has the last word: the others have gone or may not save. After Step.
  bool last() const { return last_; }
  // It has gone, and the others may not have all that it did. After Step.
  bool in_hurry() const { return in_hurry_; }

  // To be called every few ms after that, and after the snapshot, until it returns true.
  bool Answered();

 private:
  enum class Phase { kStays, kTells, kGoes, kOver };

  bool Stays(int64_t now) const;
  void Enter(Phase phase, int64_t now);
  void End(bool last);
  void EndGone();
  // Whether the time of a phase is over, which without a signal is `ns`.
  bool Late(int64_t now, int64_t ns) const;
  // `ns` after the signal, but no sooner than `least_ns` after Begin; for ever without one.
  int64_t AfterSignal(int64_t ns, int64_t least_ns) const;

  const LeavePeers peers_;
  const std::function<std::optional<int64_t>()> stopped_ns_;
  const Clock& clock_;
  TerminationDetector* ending_ = nullptr;  // null: never was in sync
  bool stopped_ = false;
  int64_t begin_ns_ = 0;
  Phase phase_ = Phase::kOver;
  int64_t entered_ns_ = 0;  // when this phase began
  TerminationDetector::FinalSnapshotOwner snapshot_owner_ =
      TerminationDetector::FinalSnapshotOwner::kNobody;
  bool last_ = false, in_hurry_ = false;
  int64_t answering_ns_ = -1;  // since when; -1: not yet
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_GRACEFUL_LEAVE_H_
