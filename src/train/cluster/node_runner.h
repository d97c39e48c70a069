// A node of a cluster around a program's own loop: does in a thread what the main thread of a
// training run does while its solvers train.
#ifndef MILLRACE_TRAIN_CLUSTER_NODE_RUNNER_H_
#define MILLRACE_TRAIN_CLUSTER_NODE_RUNNER_H_

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "base/threads/thread.h"
#include "train/cluster/cluster_session.h"

namespace millrace::inline train {

// One thread at a time calls it.
class NodeRunner {
 public:
  // Starts the segments of `node_config`, which outlives this object, as do the data of `replica`,
  // in host memory; its sink is replaced by one of this object. Throws Error with one line.
  NodeRunner(const NodeConfig& node_config, ClusterReplica replica);

  // Blocks until this node has the run's weights. Throws Error after `seconds`. `poll`, which may
  // be null, is called while it waits; an exception of it leaves this function, which may be called
  // again.
  void Join(double seconds, const std::function<void()>& poll = nullptr);
  // Publishes that this node has failed with `error`: the others log it and no longer wait for this
  // node. Blocks until they have acknowledged it, at most ClusterSession::kPublishNs.
  void PublishFailed(std::exception_ptr error);
  // Throws the first error of a segment's thread.
  void RethrowIfFailed() const { errors_.RethrowIfFailed(); }
  bool failed() const { return errors_.failed(); }
  Cluster& cluster() { return session_->cluster(); }
  const Cluster& cluster() const { return session_->cluster(); }

  // Waits until all nodes have ended and have the same weights, then leaves. `max_iteration_ns`:
  // longest iteration of this node so far. Throws Error, after leaving, if the nodes have not
  // reached the same weights in time, or if one has ended with a non-finite loss. `poll` as of
  // Join; after its exception, call Finish again, Leave or PublishFailed.
  void Finish(int64_t max_iteration_ns, const std::function<void()>& poll = nullptr);
  // Hands over this node's progress and leaves.
  void Leave();

 private:
  void LeaveAndAnswer(LeaveReason reason);

  const NodeConfig& node_config_;
  const SteadyClock clock_;
  ErrorSink errors_;
  CommandReader commands_{nullptr, &clock_};
  std::unique_ptr<ClusterSession> session_;
  std::unique_ptr<Thread> service_;  // from Join to Finish or Leave
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CLUSTER_NODE_RUNNER_H_
