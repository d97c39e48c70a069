// A node's participation in a cluster during one run: join, failure reports, and leave.
#ifndef MILLRACE_TRAIN_CLUSTER_CLUSTER_SESSION_H_
#define MILLRACE_TRAIN_CLUSTER_CLUSTER_SESSION_H_

#include <atomic>
#include <exception>
#include <functional>
#include <memory>

#include "base/threads/thread.h"
#include "cluster/failure_detector.h"
#include "cluster/node_life.h"
#include "cluster/start.h"
#include "rendezvous/rendezvous.h"
#include "solver/rate_scale.h"
#include "topology/plan.h"
#include "topology/topology.h"
#include "train/options.h"
#include "train/run_control.h"
#include "weights/weight_reader.h"

namespace millrace::inline train {

struct NodeConfig {
  Topology topology;
  NodePlan plan;
  std::unique_ptr<Rendezvous> rendezvous = {};  // null: the topology names all nodes
};

// The node selected by --topology and --node, or registered by --rendezvous, after which this waits
// until it has an id; null without a cluster. Throws Error with one line.
std::unique_ptr<NodeConfig> FindNodeConfig(const TrainOptions& options);
// The same, of a program whose weights are in host memory: Error for a node that has its in a
// device.
std::unique_ptr<NodeConfig> FindHostNodeConfig(const TrainOptions& options);
// What is wrong with the node's field `memory`, and what is `expected`.
Error MemoryError(const NodeConfig& node_config, const std::string& expected);

// Names of the nodes, by id.
std::vector<std::string> NodeNames(const Topology& topology);
// The same with the segments of `node_config`'s node.
std::vector<PeerLabel> PeerLabels(const NodeConfig& node_config);

// ExchangeConfig::examples of a node with so many solvers, whose nets have batches of `batch_size`.
uint32_t ExamplesOf(int64_t batch_size, const caffe::SolverParameter& solver, int solvers);

// The factor of a node's learning rate (rate_scale.h), with the present members and staleness of
// its cluster. `solvers`: see RateScale::FactorOf.
float RateFactor(const Cluster& cluster, const NodePlan& plan, RateGrowth growth, int solvers);
// Logs the whole factor and its warm-up, if the nodes multiply their learning rates.
void LogScaling(const NodeConfig& node_config, RateGrowth growth, int solvers,
                const RateScale& scale);

// StrategyContext::peers_look_ahead of a node, with the present members of its cluster.
float PeersLookAhead(const Cluster& cluster, const NodePlan& plan);

// For the run's main thread only, except that cluster() is thread-safe, and that another thread may
// call LogFailures and failure_detector() until the main thread ends the run.
class ClusterSession {
 public:
  // Starts the segments. If the network is down, retries for up to a minute. `reader`: of the
  // replica's weights. `node_config`, the data of `replica`, and `commands` outlive this object.
  // Throws Error with one line that names the segment.
  ClusterSession(const NodeConfig& node_config, const ClusterReplica& replica,
                 const WeightReader& reader, CommandReader* commands);
  ~ClusterSession();

  // Longest waits for the acknowledgements of a failure, and of the finding that the schedule is
  // too short: nodes that do not learn of it would train on.
  static constexpr int64_t kPublishNs = 300'000'000, kTooShortNs = 30'000'000'000;

  Cluster& cluster() { return *cluster_; }
  FailureDetector& failure_detector() { return failure_detector_; }
  ClusterPeers& peers() { return peers_; }

  // Waits until this node has the run's weights. Returns false if a command stops the run first,
  // or if the run ends. Throws Error if the other nodes refuse this node.
  bool Join();
  // The registry says that the run ended before this node had its weights.
  bool run_ended() const { return run_ended_; }
  // Throws ScheduleTooShort if another node has found that the schedule is too short.
  void ThrowIfTooShort();
  // The state of this node's life.
  NodeLife& life() { return life_; }
  // Publishes that this node has failed with `error`. With `wait`, blocks until the others have
  // acknowledged it, at most kPublishNs, or kTooShortNs for a ScheduleTooShort unless a command
  // stops the run.
  void PublishFailed(std::exception_ptr error, bool wait);
  // Logs the failures that other nodes have published since the last call. The leader also tells
  // them to nodes that join later.
  void LogFailures();
  // Leaves the cluster (cluster/graceful_leave.h). Returns true if this node writes the final
  // snapshot.
  bool Leave(LeaveReason reason);
  // Replies for a moment to nodes that do not yet know that they may leave.
  void Answer();

 private:
  void FollowRendezvous();
  void FollowNames();
  // Calls `done` until it returns true, or until a thread has failed.
  void WaitFor(const std::function<bool()>& done);

  const NodeConfig& node_config_;
  const IterationClock& iterations_;
  ErrorSink& errors_;
  CommandReader& commands_;
  const Clock& clock_;
  const std::unique_ptr<Cluster> cluster_;
  FailureDetector failure_detector_;
  LiveClusterPeers peers_;
  NodeLife life_;
  std::atomic<bool> run_ended_{false};
  bool completed_ = false;
  std::unique_ptr<Thread> names_;  // null: all peers have IP addresses
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CLUSTER_CLUSTER_SESSION_H_
