// Detects that all nodes of a cluster have ended and hold the same weights (quiescence detection).
//
// Each node publishes the checksum of its weights whenever it changes, and the peers from which it
// receives frames. A node's own progress is in its weights from the start. Equal checksums on all
// nodes therefore mean that the weights include all diffs, and that no diff is in flight. A node
// that has died or is cut off is in no peer's set, and no node waits for it.
//
// Nodes that are stopped earlier publish that. If all nodes were stopped, they agree on the final
// snapshot owner.
#ifndef MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_
#define MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/cluster_peers.h"
#include "cluster/read_gossip.h"
#include "millrace/node_id.h"
#include "proto/gossip.pb.h"
#include "weights/weight_reader.h"

namespace millrace::inline cluster {

// Not thread-safe.
class TerminationDetector {
 public:
  enum class State {
    kTraining,   // some solvers have not ended
    kInFlight,   // all solvers have ended, diffs are in flight
    kQuiescent,  // all reachable nodes have this node's weights
    kDiverged,   // a timeout has passed without quiescence
  };
  // The node that writes the final snapshot of a stopped run.
  enum class FinalSnapshotOwner {
    kNobody,  // some node continues to train
    kOther,
    kThis,
  };
  // Timeouts of a node that has ended. For the other nodes' last iterations: kTrainNs, or
  // kIterations times the longest iteration of the nodes that still train if that is longer, at
  // most kMaxTrainNs. Then for equal weights, since the last change of any node's checksum:
  // kStillNs and kPasses of the longest passes over the weights, as a pass that has begun before
  // the change is followed by one with the result; or kOutstandingNs, if that is longer, while a
  // node has progress outstanding, as a lost frame of a slow link is sent again only after seconds.
  // In all at most kMoveNs. Equal weights count after kStillNs though a node has progress
  // outstanding.
  static constexpr int64_t kTrainNs = 30'000'000'000, kIterations = 3,
                           kMaxTrainNs = 14'400'000'000'000, kStillNs = 3'000'000'000,
                           kOutstandingNs = 60'000'000'000, kMoveNs = 1'800'000'000'000,
                           kPasses = 2;

  // `weights`: of this node, which the segments change concurrently. `peers`, the weights and
  // `clock` outlive this object.
  TerminationDetector(ClusterPeers* peers, WeightReader weights, const Clock* clock);

  // Replaces Update while this node's solvers train their last iterations, and publishes that.
  // `max_iteration_ns`: longest iteration of these solvers so far.
  void PublishTraining(int64_t max_iteration_ns);
  // Sets the longest iteration of this node's solvers, which have ended. Call it before the first
  // Update.
  void SetLongest(int64_t max_iteration_ns) { max_iteration_ns_ = max_iteration_ns; }
  // Reports that the first Update follows at once: the time until then counts as a pass.
  void BeginUpdates() { pass_begin_ns_ = clock_.NowNs(); }
  // Publishes changes of this node's state, reads the other nodes' states, and returns the result.
  // Call it every few ms until this node has left.
  State Update();
  // Replaces Update on a node that was stopped by a signal: publishes the stop, and, once its
  // solvers have `ended`, that it leaves. A node that `is_leader` precedes others as final snapshot
  // owner; a peer without a frame lately (Recency::kLately) cannot be the owner. Returns the owner
  // as currently known.
  FinalSnapshotOwner UpdateStopped(bool is_leader, bool ended);
  // The end of the run before its schedule's, by a stop condition of the leader.
  struct EarlyEnd {
    int64_t iteration;
    std::string reason;  // one line
  };
  // Publishes that the run ends.
  void PublishEarlyEnd(const EarlyEnd& end);
  // The end that this node or another has published; of several, as two leaders may publish them,
  // the one with the smallest iteration.
  std::optional<EarlyEnd> FindEarlyEnd();
  // Publishes that this node, as leader, has saved the model and finished the last test.
  void PublishDone();
  // Publishes that this node leaves, so that the others do not wait for it.
  void PublishGone();
  // Publishes that this node leaves because of `error`. `not_finite`: the error is a non-finite
  // loss.
  void PublishFailed(const std::string& error, bool not_finite);

  // Publishes that the schedule is too short, for the reason `line` (ScheduleTooShort), and that
  // this node leaves: the finding ends all nodes.
  static constexpr size_t kMaxTooShortBytes = 800;
  void PublishTooShort(const std::string& line);
  // The line that another node has published; of several, that of the first node.
  std::optional<std::string> FindTooShort();
  // After PublishTooShort: every living node will end, too. The other members have acknowledged the
  // line, or all responsive peers have published it or that they leave.
  bool IsTooShortHeard();

  // Publishes which other nodes ended with a non-finite loss, if that has changed: their node ids
  // and incarnations, of which kMaxFailedPeers count.
  static constexpr size_t kMaxFailedPeers = 32;
  void PublishPeerFailures(const std::vector<std::pair<NodeId, uint32_t>>& peers);

  // As of the last Update, ascending and including this node: all reachable nodes; those with
  // weights of this checksum; those whose solvers still train.
  const std::vector<NodeId>& reachable() const { return reachable_; }
  std::vector<NodeId> WithWeights(uint32_t checksum) const;
  std::vector<NodeId> WithOwnWeights() const { return WithWeights(own_.weights()); }
  std::vector<NodeId> Training() const;
  // The nodes of reachable() with progress outstanding.
  std::vector<NodeId> Outstanding() const;
  // At the last Update all reachable nodes had this node's weights.
  bool same() const { return same_; }
  // Some node has published PublishDone.
  bool done() const;

  // CRC-32C of the weights, with -0 counted as 0: replicas may differ in the sign of zero.
  static uint32_t Checksum(const WeightReader& weights);
  static uint32_t Checksum(std::span<const float> weights) {
    return Checksum(WeightReader(weights));
  }

 private:
  void Publish(bool at_once);
  // End states of all nodes as published, by node.
  const std::map<NodeId, RunEnd>& ReadEnds() { return reader_.Read(peers_.Read(GossipKey::kEnd)); }
  void ReadPeers(bool stopped);
  void ComputeChecksum(int64_t now);
  State Evaluate();
  int64_t TrainingTimeout() const;
  int64_t StillTimeout() const;

  ClusterPeers& peers_;
  const WeightReader weights_;
  const Clock& clock_;
  int64_t begin_ns_ = -1;  // time of the first Update
  int64_t max_iteration_ns_ = 0;
  bool same_ = false;
  RunEnd own_;
  bool ended_ = false;          // Update, UpdateStopped with `ended`, or PublishGone was called
  uint64_t merges_ = 0;         // merges that own_.weights() includes at least
  int64_t checked_ns_ = -1;     // begin of the pass for that checksum; -1: never
  int64_t pass_begin_ns_ = -1;  // BeginUpdates; -1: not called, or a checksum has followed
  int64_t pass_ns_ = 0;         // longest pass so far
  std::string published_;       // last published message
  int64_t published_ns_ = 0;    // when it was published
  std::vector<NodeId> responsive_nodes_;  // sent frames since this node was stopped; ascending
  GossipReader<RunEnd> reader_;
  std::map<NodeId, RunEnd> statements_;
  std::vector<NodeId> reachable_;
  std::vector<uint32_t> moving_;  // checksums of reachable_ at their last change
  int64_t moved_ns_ = 0;          // time of that change
  int64_t unsettled_ns_ = 0;      // last time at which a node had progress outstanding
  int64_t all_ended_ns_ = -1;     // when all solvers had ended; -1: not yet
  int64_t equal_ns_ = -1;         // since when all weights are equal; -1: they are not
};

}  // namespace millrace::inline cluster

#endif  // MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_
