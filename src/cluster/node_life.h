// A node's life in a cluster as one state machine: it joins the run, trains, ends the schedule
// together with the others or is stopped, leaves, and answers for a moment. Pure logic on injected
// peers and time; the caller polls it (train/cluster/cluster_session.h).
//
//   kJoining ---> kTraining ---> kEnding ---> kSaving
//      |              |             |            |
//      +--------------+------+------+------------+
//                            v
//                        kLeaving ---> kAnswering ---> kGone
//
// A node leaves from any phase: because it was stopped, because its program goes, or because it has
// saved. A node that fails publishes that and is destroyed.
#ifndef MILLRACE_CLUSTER_NODE_LIFE_H_
#define MILLRACE_CLUSTER_NODE_LIFE_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster_peers.h"
#include "cluster/graceful_leave.h"
#include "cluster/peer_failures.h"
#include "cluster/quiescence_wait.h"
#include "cluster/termination_detector.h"
#include "weights/weight_reader.h"

namespace millrace::inline cluster {

// For one thread, except that PublishFailed and TakeFailures may be called from two threads at the
// same time. Functions that change the phase require that it is one of those that they name.
class NodeLife {
 public:
  enum class Phase {
    kJoining,    // waits for the run's weights
    kTraining,   // its solvers train
    kEnding,     // its solvers have completed the schedule; waits for the same weights on all nodes
    kSaving,     // the nodes have the same weights, or more waiting is useless: saves and tests
    kLeaving,    // hands over its progress and waits for its removal from the views
    kAnswering,  // has left; replies to nodes that do not know yet that they may leave
    kGone,
  };

  // `weights`: of this node, which the segments change concurrently. `labels`: of the cluster's
  // nodes, by id. `stopped_ns`: time of the stop signal; none before a signal. `peers`, the weights
  // and `clock` outlive this object.
  NodeLife(ClusterPeers* peers, WeightReader weights, std::vector<PeerLabel> labels,
           std::function<std::optional<int64_t>()> stopped_ns, const Clock* clock);

  Phase phase() const { return phase_; }

  // kJoining: goes to kTraining once this node has the run's weights. Returns whether it did.
  bool PollJoin();

  // kTraining: this node's solvers train their last iterations, of which the longest so far took
  // `max_iteration_ns`. Call every few ms.
  void PublishTraining(int64_t max_iteration_ns) { termination_.PublishTraining(max_iteration_ns); }
  // kTraining: a signal has stopped the run; the solvers finish their iterations. Call every few
  // ms.
  void PublishStopped() { termination_.UpdateStopped(peers_.is_leader(), false); }
  // kTraining: the end of the run before its schedule's, by a stop condition of the leader
  // (TerminationDetector::FindEarlyEnd).
  std::optional<TerminationDetector::EarlyEnd> FindEarlyEnd() {
    return termination_.FindEarlyEnd();
  }
  void PublishEarlyEnd(const TerminationDetector::EarlyEnd& end) {
    termination_.PublishEarlyEnd(end);
  }
  // From any phase: a node has found that the schedule is too short
  // (TerminationDetector::PublishTooShort).
  std::optional<std::string> FindTooShort() { return termination_.FindTooShort(); }
  void PublishTooShort(const std::string& line);
  bool IsTooShortHeard() { return termination_.IsTooShortHeard(); }
  // Longest iteration of this node's solvers, which have ended.
  void SetLongest(int64_t max_iteration_ns) { termination_.SetLongest(max_iteration_ns); }

  // kTraining to kEnding. `freeze`: as of QuiescenceWait; null: checks the weights as they are.
  void BeginEnding(std::function<uint32_t()> freeze = nullptr);
  // kEnding: call every few ms until the result is not kWaiting; the phase is kSaving then.
  QuiescenceWait::Result PollEnd();
  // After kEnding: one line if the replicas were apart; "" otherwise.
  const std::string& diverged() const;
  // kSaving: checksum of the weights that this node ends with.
  uint32_t end_checksum() const { return quiescence_->checksum(); }
  // kSaving: published states of the others, to be updated every few ms.
  TerminationDetector& termination() { return termination_; }

  // From any phase before it to kLeaving.
  void BeginLeave(LeaveReason reason);
  // kLeaving: call every few ms until it returns true; the phase is kAnswering then.
  bool PollLeave();
  // After kLeaving: this node writes the final snapshot.
  bool last() const { return leave_.last(); }
  // kAnswering: call every few ms until it returns true; the phase is kGone then.
  bool PollAnswer();

  // Publishes that this node has failed. `not_finite`: by a loss that is not finite.
  void PublishFailed(const std::string& error, bool not_finite);
  // Failures that other nodes have published since the last call, one line each. The leader also
  // tells them to nodes that join later.
  std::vector<std::string> TakeFailures();
  // PeerFailures::NotFinite.
  std::string NotFinite() const { return failures_.NotFinite(); }

 private:
  ClusterPeers& peers_;
  const WeightReader weights_;
  const std::vector<PeerLabel> labels_;
  const Clock& clock_;
  Phase phase_ = Phase::kJoining;
  std::mutex publish_mutex_;  // guards the publishing of failures
  TerminationDetector termination_;
  std::optional<QuiescenceWait> quiescence_;  // from kEnding on
  GracefulLeave leave_;
  PeerFailures failures_;
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_NODE_LIFE_H_
