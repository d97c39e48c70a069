// The end of a schedule in a cluster: all nodes come to the same weights, which the node
// that leads saves and all of them test.
//
// Nobody waits for a node that is dead or cut off, and for others not for ever. If the one
// that leads dies meanwhile, the next does what it has not done.
#ifndef MILLRACE_TRAIN_RUN_FINALIZER_H_
#define MILLRACE_TRAIN_RUN_FINALIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/termination_detector.h"
#include "train/distributed_evaluation.h"
#include "train/tester.h"
#include "weights/weight_buffer.h"

namespace millrace {

// What RunFinalizer works with; all of it outlives it.
struct RunFinalizerParts {
  Cluster* cluster;
  TerminationDetector* ending;
  const Clock* clock;
  std::vector<std::string> names;  // of the cluster's nodes
  Tester* tester;
  DistributedEvaluation* distributed_evaluation;  // null: who leads tests alone
  const WeightBuffer* weights;
  const ParamLayout* layout;  // of the weights
  // Saves these weights, or without `leads` what a node keeps of its own.
  std::function<void(float* weights, bool is_leader)> save;
  // Waits a few ms, if it is to; whether the run is to stop.
  std::function<bool(int ms)> stopped;
};

// For the run's main thread, after its solvers have ended.
class RunFinalizer {
 public:
  explicit RunFinalizer(RunFinalizerParts parts);

  // Ends the run at `iteration`. False if it was stopped before this was done. Throws what
  // saving and testing throw.
  bool Run(int64_t iteration);
  // The weights at the end have been saved, by this node or another.
  bool saved() const { return saved_; }
  // Of the last test, if one was due; empty also where only the node that leads knows.
  std::vector<Evaluation> tests() { return std::move(tests_); }
  // The last periodic test that this node knows the results of.
  const std::optional<TestScores>& before() const { return before_; }

 private:
  bool Settle();
  void Demote();
  bool SaveAndTest();
  void Save();
  bool TestIfReady();
  bool Follow();
  void LogTraining();
  void LogMoving();

  const RunFinalizerParts parts_;
  const int64_t began_ns_;
  TerminationDetector& ending_;
  int64_t iteration_ = 0;
  std::unique_ptr<WeightBuffer> frozen_;
  uint32_t checksum_ = 0;  // of frozen_
  bool due_ = false, saved_ = false;
  std::vector<NodeId> training_;  // as logged
  int64_t log_moving_ns_ = -1;    // when to say next that weights move; -1: they do not yet
  std::vector<Evaluation> tests_;
  std::optional<TestScores> before_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_RUN_FINALIZER_H_
