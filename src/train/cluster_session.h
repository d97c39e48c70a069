// A node's place in a cluster, and its part in one run: how it comes and how it goes.
#ifndef MILLRACE_TRAIN_CLUSTER_SESSION_H_
#define MILLRACE_TRAIN_CLUSTER_SESSION_H_

#include <exception>
#include <functional>
#include <memory>

#include "cluster/failure_detector.h"
#include "cluster/graceful_leave.h"
#include "cluster/peer_failures.h"
#include "cluster/start.h"
#include "topology/plan.h"
#include "topology/topology.h"
#include "train/options.h"
#include "train/signals.h"

namespace millrace {

struct NodeConfig {
  Topology topology;
  NodePlan plan;
};

// As --topology and --node say; null for a machine alone. Throws Error with one line.
std::unique_ptr<NodeConfig> FindPlace(const TrainOptions& options);

// By id.
std::vector<std::string> NodeNames(const Topology& topology);

// For the run's main thread only, but for cluster(), which is thread-safe.
class ClusterSession {
 public:
  // Starts the segments; waits up to a minute for a network that is down. `place`, what `replica`
  // points to and `signals` outlive this object. Throws Error with one line that names the segment.
  ClusterSession(const NodeConfig& place, const ClusterReplica& replica, SignalWatch* signals);

  static constexpr int64_t kTellNs = 300'000'000;

  Cluster& cluster() { return *cluster_; }
  FailureDetector& neighbours() { return neighbours_; }

  // Waits until the weights are those of the cluster. False if a signal stops the run
  // meanwhile. Throws Error if the others refuse this node.
  bool Join();
  // What this node tells the others about its end.
  TerminationDetector& ending() { return ending_; }
  // A signal has stopped the run and solvers finish their iterations: tells the others. To be
  // called every few ms.
  void TellStopped();
  // This node has failed with `error`: tells the others, and waits until they know, but no longer
  // than kTellNs if it is to `wait`.
  void TellFailed(std::exception_ptr error, bool wait);
  // Logs which other nodes have failed since the last call.
  void LogFailures();
  const PeerFailures& failures() const { return failures_; }
  // Ends this node's part (cluster/graceful_leave.h); `stopped`: by a signal, before the run was
  // complete. True if it is the one that has the last word.
  bool Leave(bool stopped);
  // Answers for a while those that have not heard yet that they may go.
  void Answer();

 private:
  // Errors end it too.
  void WaitFor(const std::function<bool()>& done);

  const NodeConfig& place_;
  const IterationClock& iterations_;
  ErrorSink& errors_;
  SignalWatch& signals_;
  const Clock& clock_;
  const std::unique_ptr<Cluster> cluster_;
  FailureDetector neighbours_;
  TerminationDetector ending_;
  GracefulLeave departure_;
  PeerFailures failures_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_CLUSTER_SESSION_H_
