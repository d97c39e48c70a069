// A solver in its thread: what happens between its iterations, which are tests, snapshots and
// reports.
#ifndef MILLRACE_TRAIN_SOLVER_WORKER_H_
#define MILLRACE_TRAIN_SOLVER_WORKER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/threads/thread_load.h"
#include "cluster/cluster.h"
#include "cluster/merged_weights.h"
#include "cluster/snapshot_duty.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "solver/lr_policy.h"
#include "solver/snapshot.h"
#include "solver/snapshot_collector.h"
#include "solver/solver.h"
#include "solver/solver_config.h"
#include "solver/stop_conditions.h"
#include "solver/strategy.h"
#include "train/evaluation/distributed_evaluation.h"
#include "train/evaluation/tester.h"
#include "train/reporter.h"
#include "train/run_control.h"
#include "train/snapshot_writer.h"
#include "weights/weight_buffer.h"

namespace millrace::inline train {

// State shared by the solvers of a process. Everything outlives the workers.
struct SharedRun {
  const SolverConfig& config;
  const LrPolicy& policy;
  WeightBuffer& weights;
  DataService& data;
  Reporter& reporter;
  Tester& tester;
  SnapshotCollector& snapshots;
  SnapshotWriter& writer;
  const Clock& clock;
  std::atomic<bool>& stop;
  RunRequests& requests;
  // Create the strategy of solver `index`, and its train net; called by the solver's thread.
  std::function<std::unique_ptr<Strategy>(int index)> make_strategy;
  std::function<std::unique_ptr<BuiltNet>(Device* device, int index)> make_net = {};
  const ResumePoint* resume = nullptr;                      // null: the run starts anew
  Cluster* cluster = nullptr;                               // null: no cluster
  DistributedEvaluation* distributed_evaluation = nullptr;  // null: the leader tests alone
  SnapshotDuty* duty = nullptr;                             // null: no cluster
  ThreadLoad* load = nullptr;                               // joined by each solver; null: none
  MergedWeights* merged = nullptr;                          // for snapshots; null: no cluster
  StopConditions* stop_conditions = nullptr;                // null: none; the leader's count
  bool first_rank = true;                                   // of the processes of the run
  Histogram* iteration_seconds = nullptr;                   // null: nobody reads it
};

class SolverWorker {
 public:
  // `index`: from 0. `net`: an existing train net on the strategy's device, or null: that of
  // make_net.
  SolverWorker(int index, const SharedRun& run, std::unique_ptr<BuiltNet> net = nullptr);

  // Trains until the schedule ends or the run stops. Called once, by the solver's own thread.
  // Throws Error: for bad data, or as NonFiniteLoss, naming the layer, for a loss that is not
  // finite. The error of a solver that others step with names the solver, and ends theirs too.
  void Run();
  // Longest iteration so far, including its test, in ns. Thread-safe.
  int64_t max_iteration_ns() const { return max_iteration_ns_.load(std::memory_order_relaxed); }

  // The snapshot of `iteration` with `weights` as its model, after all solvers have ended; none if
  // that snapshot was already opened. `weights` outlive this object. Without `with_model`, only
  // this node's own part.
  std::optional<Snapshot> FinalSnapshot(int64_t iteration, const float* weights, bool with_model);
  // After the run has failed and Run has thrown: the snapshot of `iteration` with `weights` as its
  // model and no histories; none if this solver had no net yet. Does not use the solver's device.
  std::optional<Snapshot> FailureSnapshot(int64_t iteration, const float* weights) const;

  // Layout of the shared weights. Valid after Run.
  const ParamLayout& layout() const { return net_->layout(); }
  // Loss of a forward pass over the next batch of training data, with the net's weights. After Run
  // has returned.
  float FinalLoss();
  // The size of the activations of this solver's net. Valid after Run.
  size_t activation_bytes() const { return net_->activation_bytes(); }

 private:
  void Train();
  // Whether this solver is to leave between two iterations. Solvers that step together leave
  // together: their strategy hands out no more iterations.
  bool Stops() const { return step_ == nullptr && run_.stop.load(std::memory_order_relaxed); }
  // Whether this solver tests, saves and reports: if solvers step together, one of them does.
  bool IsProcessLeader() const { return step_ == nullptr || step_->leads_process(); }
  // A snapshot of `iteration` without histories, with `weights` of the host as the model of `net`.
  // Without `with_model`, only this process's own part.
  Snapshot StartSnapshot(const BuiltNet& net, int64_t iteration, bool with_model, bool with_diff,
                         const float* weights) const;
  // Whether the log has lines of this iteration.
  bool HasLines(int64_t iteration) const;
  // Performs tests and snapshots that fell due in iterations of other nodes. Returns whether one of
  // these iterations was to be displayed.
  bool CatchUp();
  // Whether this process tests and saves the model.
  bool IsLeader() const {
    return run_.first_rank && (run_.cluster == nullptr || run_.cluster->is_leader());
  }
  // Runs the test if one is due at this iteration, all of it or this node's part, or if a command
  // has asked for one.
  void RunTest(int64_t iteration);
  void RunWholeTest(int64_t iteration);
  // Whether this solver is to wait. Of solvers that step together, the one that leads does, once
  // all progress is merged; the others wait for it in their next step.
  bool Pauses() const;
  // Counts the time since `begin_ns` as that of an iteration.
  void CountTime(int64_t begin_ns);
  // Returns when the run is no longer paused, or stops.
  void Pause();
  // Shows the stop conditions the last test whose results this node knows, once.
  void ApplyStopConditions();
  void TakeSnapshots(int64_t completed);
  // Takes a snapshot if a command has asked for one; returns whether.
  bool TakeRequestedSnapshot(int64_t completed);
  // For solvers that step together and have histories of their own: at an iteration with a snapshot
  // they wait until the one that leads has begun it, so that it is of one moment.
  void Meet();
  // Whether snapshots hold a history of this solver.
  bool HasHistory() const;
  void FollowSnapshot(int64_t completed);
  // Gives what a snapshot that is open lacks of this solver.
  void Deposit();
  SolverPart ExportState() const;
  bool IsSnapshotScheduled(int64_t completed) const;
  void Open(int64_t iteration, bool with_model);
  void Write(std::optional<Snapshot> snapshot) const;

  const int index_;
  const SharedRun& run_;
  std::unique_ptr<BuiltNet> net_;  // solver_ has it during Run
  std::unique_ptr<Strategy> strategy_;
  SynchronousStep* step_ = nullptr;  // of strategy_; null: solvers do not step together
  std::optional<Solver> solver_;
  std::atomic<int64_t> max_iteration_ns_{0};
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SOLVER_WORKER_H_
