// The end of a training run, after its solvers: the final snapshot, the last test, and the result.
#ifndef MILLRACE_TRAIN_RUN_COMPLETION_H_
#define MILLRACE_TRAIN_RUN_COMPLETION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "solver/snapshot.h"
#include "solver/stop_conditions.h"
#include "train/cluster/cluster_training.h"
#include "train/evaluation/tester.h"
#include "train/reporter.h"
#include "train/run_setup.h"
#include "train/run_stop.h"
#include "train/snapshot_writer.h"
#include "train/solver_worker.h"
#include "train/train_run.h"

namespace millrace::inline train {

// The parts that RunCompletion uses. Everything outlives it.
struct RunCompletionParts {
  RunSetup& setup;
  RunStop& stop;
  ErrorSink& errors;
  const StopConditions& stop_conditions;
  Reporter& reporter;
  Tester& tester;
  SnapshotWriter& writer;
  ClusterTraining* cluster;  // null: no cluster
};

// For the run's main thread.
class RunCompletion {
 public:
  explicit RunCompletion(RunCompletionParts parts)
      : parts_(parts), setup_(parts.setup), stop_(parts.stop) {}

  // Saves and tests the weights. `worker`: one of the solvers, which have ended. Throws the errors
  // of saving and testing.
  TrainResult Run(SolverWorker* worker);
  // Without a cluster, saves the weights of the host after a failure of a GPU; other nodes of a
  // cluster have them.
  void SaveIfGpuFailed(const std::vector<std::unique_ptr<SolverWorker>>& workers);

 private:
  void RunInCluster(SolverWorker* worker, bool complete, TrainResult* result);
  int64_t ResumedAt() const;
  bool LastTestDue(int64_t iteration) const;
  void ReportFinalLoss(SolverWorker* worker, int64_t iteration);
  bool LastProcess();
  void Save(SolverWorker* worker, float* weights, bool with_model, TrainResult* result);
  bool IsResumed(int64_t iteration, const SnapshotPaths& paths) const;
  void WriteLast(int64_t iteration, std::optional<Snapshot> last);

  const RunCompletionParts parts_;
  RunSetup& setup_;
  RunStop& stop_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_COMPLETION_H_
