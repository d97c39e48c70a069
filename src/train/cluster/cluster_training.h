// The part of a training run that concerns its cluster, until the solvers have ended: joins it,
// tells tests and snapshots which weights to use, watches shards and failures, and follows the
// leader's stop conditions. run_completion.h has the end.
#ifndef MILLRACE_TRAIN_CLUSTER_CLUSTER_TRAINING_H_
#define MILLRACE_TRAIN_CLUSTER_CLUSTER_TRAINING_H_

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/threads/thread_load.h"
#include "cluster/merged_weights.h"
#include "cluster/shard_takeover.h"
#include "cluster/snapshot_duty.h"
#include "cluster/start_check.h"
#include "solver/stop_conditions.h"
#include "train/cluster/cluster_session.h"
#include "train/evaluation/distributed_evaluation.h"
#include "train/evaluation/tester.h"
#include "train/run_setup.h"
#include "train/run_stop.h"
#include "train/settings_check.h"
#include "weights/weight_reader.h"

namespace millrace::inline train {

// For the run's main thread, except for duty() and the arrays. Everything outlives it.
class ClusterTraining {
 public:
  // Starts the segments of this node, whose threads report errors to `errors`. `solvers`: load of
  // the run's solvers. Throws Error with one line that names the segment.
  ClusterTraining(RunSetup* setup, RunStop* run_stop, ErrorSink* errors, const ThreadLoad* solvers);

  // Returns false if the run was stopped before this node had the run's weights. Otherwise, tests
  // of `tester` and snapshots use merged weights from then on.
  bool Join(Tester* tester);

  Cluster& cluster() { return session_.cluster(); }
  ClusterSession& session() { return session_; }
  // The reader of the replica on which the segments work.
  const WeightReader& reader() const { return reader_; }
  MergedWeights* snapshot_weights() { return snapshot_weights_.get(); }
  DistributedEvaluation* distributed_evaluation() { return distributed_evaluation_.get(); }
  SnapshotDuty* duty() { return duty_.get(); }

  // While the solvers train, every few ms: checks once whether the nodes can learn from each other
  // (`seconds`: of training), and watches peers and shards.
  void Watch(double seconds);
  // The same after commands were read: reports failures, this node's own included, the end by a
  // stop condition of the leader (`conditions`: of this node), and how far this node is.
  // `max_iteration_ns`: longest iteration of its solvers.
  void Publish(const StopConditions& conditions, int64_t max_iteration_ns);
  // A node that has found the schedule to be too short ends all nodes.
  void FollowTooShort();
  // Conditions of the leader end the run for all nodes, at the iteration that the leader publishes.
  void FollowEarlyEnd(const StopConditions& conditions);

 private:
  void CheckStart(double seconds);
  void ScaleRate();
  void CompareSettings();
  void UseMergedWeights(Tester* tester);
  void DistributeEvaluation(Tester* tester);
  void WatchShards();
  void PublishFailed();

  RunSetup& setup_;
  RunStop& stop_;
  ErrorSink& errors_;
  StartCheck start_check_;
  const WeightReader reader_;
  ClusterSession session_;
  SettingsCheck settings_check_;
  int64_t next_comparison_ns_ = 0;
  std::unique_ptr<ShardTakeover> takeover_;  // null: this node reads fixed shards
  std::unique_ptr<MergedWeights> test_weights_, snapshot_weights_;
  std::unique_ptr<DistributedEvaluation> distributed_evaluation_;  // null: the leader tests alone
  std::unique_ptr<SnapshotDuty> duty_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_CLUSTER_CLUSTER_TRAINING_H_
