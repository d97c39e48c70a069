// One solver: a net instance, a momentum history and a stream of batches of its
// own, on weights that it shares with all others.
#ifndef MILLRACE_TRAIN_SOLVER_WORKER_H_
#define MILLRACE_TRAIN_SOLVER_WORKER_H_

#include <atomic>
#include <memory>
#include <optional>

#include "base/range_lock.h"
#include "base/thread_load.h"
#include "cluster/cluster.h"
#include "cluster/merged_weights.h"
#include "cluster/snapshot_duty.h"
#include "data/data_service.h"
#include "nn/net.h"
#include "solver/lr_policy.h"
#include "solver/snapshot.h"
#include "solver/snapshot_collector.h"
#include "solver/solver_config.h"
#include "solver/update_rule.h"
#include "train/distributed_evaluation.h"
#include "train/reporter.h"
#include "train/snapshot_writer.h"
#include "train/tester.h"
#include "weights/weight_buffer.h"

namespace millrace {

// What the solvers of a process share. Everything outlives the workers.
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
  std::atomic<bool>& snapshot_requested;
  const ResumePoint* resume = nullptr;                      // null for a run from the start
  Cluster* cluster = nullptr;                               // null for a machine alone
  DistributedEvaluation* distributed_evaluation = nullptr;  // null: who leads tests alone
  SnapshotDuty* duty = nullptr;                             // null for a machine alone
  ThreadLoad* load = nullptr;       // that solvers are members of; null: none
  MergedWeights* merged = nullptr;  // for snapshots; null for a machine alone
};

// A loss, or what it is made of, is NaN or infinite.
class NonFiniteLoss : public Error {
 public:
  using Error::Error;
};

// Options of the train net of a run.
NetOptions TrainNetOptions(const SolverConfig& config, DataService* data);

class SolverWorker {
 public:
  // `index` counts from 0. `net` may be given where it exists already.
  SolverWorker(int index, const SharedRun& run, std::unique_ptr<Net> net = nullptr);

  // Trains until the schedule ends or the run is to stop. Called once, by the
  // solver's own thread. Throws Error: a loss that is not finite (naming the
  // layer, as NonFiniteLoss), bad data.
  void Run();
  // The longest iteration so far, the test that it made included; from any thread.
  int64_t longest_ns() const { return longest_ns_.load(std::memory_order_relaxed); }

  // After all solvers have ended: the snapshot of `iteration`, none if it was opened on the way;
  // its model are `weights`, which outlive this object. Without model only what a node of a
  // cluster keeps of its own.
  std::optional<Snapshot> FinalSnapshot(int64_t iteration, float* weights, bool with_model);

  // Of the weights that solvers share; once the net is there.
  const ParamLayout& layout() const { return net_->layout(); }
  // Of this solver's net, after Run.
  size_t activation_bytes() const { return net_->activation_bytes(); }

 private:
  // Everything a snapshot at `iteration` holds but the histories; without model only what
  // this node keeps of its own.
  Snapshot StartSnapshot(int64_t iteration, bool with_model) const;
  // Does what fell due in iterations that other machines have done. Returns whether
  // one of them was to be displayed.
  bool CatchUp();
  // Whether this machine is the one to test and to save the model.
  bool IsLeader() const { return run_.cluster == nullptr || run_.cluster->is_leader(); }
  // The test that is due at this iteration, if one is: all of it, or this node's part.
  void RunTest(int64_t iteration);
  // One whole iteration, the test that is due before it included; `display` even if
  // its number does not ask for it.
  void Train(int64_t iteration, bool display);
  // Returns the loss of one iteration: the mean over iter_size passes.
  float ComputeGradients(int64_t iteration);
  void TakeSnapshots(int64_t completed);
  void Open(int64_t iteration, bool with_model) const;
  void Write(std::optional<Snapshot> snapshot) const;
  History ExportHistory() const;

  const int index_;
  const SharedRun& run_;
  std::unique_ptr<Net> net_;
  std::optional<RangeLock::Shared> holder_;
  std::unique_ptr<UpdateRule> rule_;
  std::atomic<int64_t> longest_ns_{0};
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_SOLVER_WORKER_H_
