// Ends a complete schedule in a cluster, or one that a stop condition has cut short: all nodes
// reach the same weights, the leader saves them, and all nodes test them. If they do not reach the
// same weights, the leader saves and tests its own, and the run counts as failed.
//
// Dead or unreachable nodes are not awaited, and all other waits have an upper bound. If the leader
// dies, the next leader completes its remaining work.
#ifndef MILLRACE_TRAIN_RUN_FINALIZER_H_
#define MILLRACE_TRAIN_RUN_FINALIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/node_life.h"
#include "train/evaluation/distributed_evaluation.h"
#include "train/evaluation/tester.h"
#include "weights/weight_buffer.h"
#include "weights/weight_reader.h"

namespace millrace::inline train {

// The parts that RunFinalizer uses. All pointers outlive it.
struct RunFinalizerParts {
  ClusterPeers* peers;
  NodeLife* life;
  const Clock* clock;
  Tester* tester;
  DistributedEvaluation* distributed_evaluation;  // null: the leader tests alone
  WeightReader weights;                           // of this node
  const ParamLayout* layout;                      // of the weights
  // Saves `weights` as the final snapshot. Without `is_leader`, saves only the node's own part.
  std::function<void(float* weights, bool is_leader)> save;
  // Waits at most `ms` ms. Returns true if the run is to stop.
  std::function<bool(int ms)> stopped;
};

// For the run's main thread, after the solvers have ended.
class RunFinalizer {
 public:
  explicit RunFinalizer(RunFinalizerParts parts);

  // Ends the run at `iteration`. Returns false if the run was stopped first. Throws the errors of
  // saving and testing.
  bool Run(int64_t iteration);
  // The final weights have been saved, by this node or another.
  bool saved() const { return saved_; }
  // Results of the last test, if there are test nets. Empty on nodes that do not have them, because
  // the leader tested alone.
  std::vector<Evaluation> tests() { return std::move(tests_); }
  // The last periodic test whose results this node knows.
  const std::optional<TestScores>& before() const { return before_; }
  // One line if the replicas were apart at the end; "" otherwise.
  const std::string& failure() const { return life_.diverged(); }

 private:
  bool AwaitQuiescence();
  uint32_t FreezeWeights();
  bool SaveAndTest();
  void Save();
  bool TestIfReady();
  bool Follow();

  const RunFinalizerParts parts_;
  NodeLife& life_;
  TerminationDetector& termination_;
  int64_t iteration_ = 0;
  std::unique_ptr<WeightBuffer> frozen_;
  bool tests_weights_ = false, saved_ = false;
  std::vector<Evaluation> tests_;
  std::optional<TestScores> before_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_FINALIZER_H_
