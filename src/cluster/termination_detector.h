// How the nodes of a cluster come to rest when their solvers have ended: when all of them
// have the same weights.
//
// Each node tells the others the checksum of its weights, whenever that changes, and whom
// it hears. A node's own progress is in its weights from the start, so weights that all
// nodes have are those of all diffs: nothing is under way any more. A node that has
// died or is cut off is heard by nobody, and not waited for.
//
// Nodes that are stopped before that tell each other so, and if all of them are, agree on which
// one saves.
#ifndef MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_
#define MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/node_id.h"
#include "cluster/failure_detector.h"
#include "proto/run_end.pb.h"

namespace millrace {

// What TerminationDetector asks a cluster for; tests put another in its place.
struct TerminationPeers {
  NodeId self = 0;
  std::function<void(std::span<const std::byte>)> publish;
  std::function<std::vector<GossipMessage>()> read;  // of all nodes, this one's included
  // Who is on this node's segments and alive, and was heard within so many ns.
  std::function<std::vector<NodeId>(int64_t within_ns)> heard;
  std::function<uint64_t()> merges;  // into this node's weights so far
  std::function<void()> flush;       // has this node send exactly what it has not sent yet
};
// `neighbours` and `cluster` outlive it.
TerminationPeers TerminationPeersOf(Cluster* cluster, FailureDetector* neighbours);

// Not thread-safe.
class TerminationDetector {
 public:
  enum class State {
    kTraining,   // not all solvers have ended
    kInFlight,   // diffs are under way
    kQuiescent,  // all nodes that are there have the weights of this one
    kDiverged,   // they never will, or only after too long
  };
  // Of nodes that were stopped.
  enum class FinalSnapshotOwner {
    kNobody,  // some node goes on
    kOther,
    kThis,
  };
  // How long a node that has ended waits: for the others' last iterations, or kIterations times
  // as long as the longest iteration of those that train, if that is more, up to kMostTrainNs;
  // then for the same weights, as long as some node's change, but no longer than kMoveNs in all.
  static constexpr int64_t kTrainNs = 30'000'000'000, kIterations = 3,
                           kMostTrainNs = 14'400'000'000'000, kStillNs = 3'000'000'000,
                           kMoveNs = 60'000'000'000;
  // A node that has not been heard for so long saves nothing.
  static constexpr int64_t kSilentNs = 1'000'000'000;

  // `weights`, which the segments change meanwhile, and `clock` outlive this object.
  TerminationDetector(TerminationPeers peers, std::span<const float> weights, const Clock* clock);

  // In place of Look while this node's solvers train their last iterations: tells the others so.
  // No iteration of theirs has taken longer than `longest_ns`.
  void TellTraining(int64_t longest_ns);
  // The solvers have ended; none of their iterations has taken longer. Before the first Look.
  void SetLongest(int64_t longest_ns) { longest_ns_ = longest_ns; }
  // Tells the others what has changed, and hears them. To be called every few ms, until this
  // node has gone.
  State Look();
  // In place of Look for a node that was stopped, `leads` or not: tells the others that it
  // was, and, if its solvers have `ended`, that it goes. Which node saves, by what is known now.
  FinalSnapshotOwner LookStopped(bool is_leader, bool ended);
  // This node has done what is done once.
  void SayDone();
  // It goes; the others no longer wait for it.
  void SayGone();
  // It goes because of this error, which is a loss that is `not_finite` or not.
  void SayFailed(const std::string& error, bool not_finite);

  // As of the last Look, ascending and with this node: those that are there; of these, those
  // that have weights of this checksum; those whose solvers train.
  const std::vector<NodeId>& there() const { return there_; }
  std::vector<NodeId> WithWeights(uint32_t checksum) const;
  std::vector<NodeId> WithOwnWeights() const { return WithWeights(own_.weights()); }
  std::vector<NodeId> Training() const;
  // As of the last Look, all that are there had the weights of this node.
  bool same() const { return same_; }
  // Some node has done what is done once.
  bool done() const;

  // The same of weights that are equal: of -0 and 0, which replicas need not agree on.
  static uint32_t Checksum(std::span<const float> weights);

 private:
  void Tell(bool at_once);
  void Hear(bool stopped);
  State Judge();
  int64_t TrainingPatience() const;

  const TerminationPeers peers_;
  const std::span<const float> weights_;
  const Clock& clock_;
  int64_t begin_ns_ = -1;  // of the first Look
  int64_t longest_ns_ = 0;
  bool same_ = false;
  RunEnd own_;
  uint64_t merges_ = 0;             // that own_.weights() has at least
  int64_t checked_ns_ = -1;         // when it was made; -1: never
  std::string told_;                // what was published last,
  int64_t told_ns_ = 0;             // and when
  std::vector<NodeId> neighbours_;  // whom it has heard since it was stopped; ascending
  std::map<NodeId, RunEnd> statements_;
  std::vector<NodeId> there_;
  std::vector<uint32_t> moving_;  // checksums of there_, when they changed last,
  int64_t moved_ns_ = 0;          // which was then
  int64_t all_ended_ns_ = -1;     // -1: not yet
};

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_TERMINATION_DETECTOR_H_
