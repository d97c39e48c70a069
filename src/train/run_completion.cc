#include "train/run_completion.h"

#include <glog/logging.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text/format.h"
#include "train/evaluation/score_check.h"
#include "train/run_finalizer.h"

namespace millrace::inline train {
namespace {

void LogMemory(const SolverWorker& worker) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  LOG(INFO) << "Peak resident memory " << static_cast<double>(usage.ru_maxrss) / 1024
            << " MiB; activations " << MiB(static_cast<double>(worker.activation_bytes()))
            << " MiB per solver";
}

}  // namespace

TrainResult RunCompletion::Run(SolverWorker* worker) {
  LogMemory(*worker);
  TrainResult result;
  const caffe::SolverParameter& param = setup_.config.param;
  const IterationClock& clock = setup_.weights->clock();
  const bool scheduled = clock.claimed() >= param.max_iter() && !stop_.condition_met;
  const bool complete = !stop_.by_command && (scheduled || stop_.end_iteration);
  result.iteration = !complete             ? clock.global()
                     : stop_.end_iteration ? *stop_.end_iteration
                                           : std::max<int64_t>(param.max_iter(), ResumedAt());
  result.loss = parts_.reporter.loss();
  if (parts_.cluster != nullptr) {
    RunInCluster(worker, complete, &result);
  } else if (LastProcess() && param.snapshot_after_train()) {
    Save(worker, setup_.weights->data(), setup_.is_first_rank(), &result);
  }
  WriteLast(result.iteration, std::nullopt);
  // A condition has ended the training data as well.
  if (scheduled && !stop_.by_command && parts_.stop_conditions.reason().empty())
    ReportFinalLoss(worker, result.iteration);
  if (!stop_.by_command && parts_.cluster == nullptr && LastTestDue(result.iteration)) {
    result.tests = parts_.tester.Run(result.iteration, [this] { return stop_.Stopped(0); });
  }
  result.stopped_early = stop_.early();
  LOG(INFO) << (result.stopped_early ? "Optimization stopped early." : "Optimization Done.");
  return result;
}

// The iteration at which the run was resumed, which may be beyond max_iter; 0: it was not, or not
// by this node. The clock of a node that joins a run starts where the run is then, which may be
// beyond max_iter too, as the nodes end the iterations that they have begun.
int64_t RunCompletion::ResumedAt() const {
  if (parts_.cluster == nullptr) return setup_.weights->clock().start();
  return setup_.resume ? setup_.resume->iteration() : 0;
}

// A run that a condition has ended tests its final weights in any case.
bool RunCompletion::LastTestDue(int64_t iteration) const {
  if (!stop_.condition_met) return parts_.tester.Due(iteration);
  const std::optional<TestScores> last = parts_.tester.last();
  return !parts_.tester.empty() && !(last && last->iteration == iteration);
}

// As Caffe, displays the loss of the final weights. Data positions are saved before it.
void RunCompletion::ReportFinalLoss(SolverWorker* worker, int64_t iteration) {
  const int interval = setup_.config.param.display();
  if (interval <= 0 || iteration % interval != 0) return;
  parts_.reporter.FinalLoss(iteration, worker->FinalLoss());
}

// The last of several processes on the same weights saves them.
bool RunCompletion::LastProcess() {
  const bool last = setup_.weights->StopTraining();
  if (!last) LOG(INFO) << "Other processes train on these weights: the last one saves them";
  return last;
}

void RunCompletion::Save(SolverWorker* worker, float* weights, bool with_model,
                         TrainResult* result) {
  const caffe::SolverParameter& param = setup_.config.param;
  const SnapshotPaths paths =
      SnapshotPathsOf(param.snapshot_prefix(), result->iteration, param.snapshot_format());
  if (IsResumed(result->iteration, paths)) {
    LOG(INFO) << "Nothing was trained: " << paths.state << " stays as it is";
  } else {
    WriteLast(result->iteration, worker->FinalSnapshot(result->iteration, weights, with_model));
  }
  if (!with_model) return;
  result->model = paths.model;
  result->state = paths.state;
}

// Whether the run began with the snapshot of `iteration` in these files and has trained nothing.
bool RunCompletion::IsResumed(int64_t iteration, const SnapshotPaths& paths) const {
  if (!setup_.resume || setup_.resume->iteration() != iteration) return false;
  std::error_code error;
  return std::filesystem::equivalent(setup_.resume->model_path, paths.model, error);
}

// A stop command ends the retries.
void RunCompletion::WriteLast(int64_t iteration, std::optional<Snapshot> last) {
  parts_.writer.Finish(iteration, std::move(last),
                       [this](int ms) { return stop_.commands.Next(ms) != RunCommand::kStop; });
}

// All nodes end a complete schedule together. Of stopped nodes, the final snapshot owner saves.
void RunCompletion::RunInCluster(SolverWorker* worker, bool complete, TrainResult* result) {
  const caffe::SolverParameter& param = setup_.config.param;
  const int interval = param.snapshot();
  const bool saves = param.snapshot_after_train() ||
                     (complete && interval > 0 && result->iteration % interval == 0);
  ClusterSession& session = parts_.cluster->session();
  RunFinalizer end({.peers = &session.peers(),
                    .life = &session.life(),
                    .clock = &setup_.clock,
                    .tester = &parts_.tester,
                    .distributed_evaluation = parts_.cluster->distributed_evaluation(),
                    .weights = parts_.cluster->reader(),
                    .layout = &worker->layout(),
                    .save =
                        [&](float* weights, bool is_leader) {
                          if (saves && LastProcess()) Save(worker, weights, is_leader, result);
                        },
                    .stopped =
                        [&](int ms) {
                          session.LogFailures();
                          parts_.cluster->FollowTooShort();
                          return parts_.errors.failed() || stop_.Stopped(ms);
                        }});
  if (complete && end.Run(result->iteration)) result->tests = end.tests();
  const bool last = session.Leave(stop_.by_command ? LeaveReason::kStopped : LeaveReason::kEnd);
  parts_.errors.RethrowIfFailed();
  if (last && saves && !end.saved() && LastProcess()) {
    // The links have ended.
    if (setup_.cluster_gpu() != nullptr) parts_.cluster->reader().Copy(setup_.weights->data());
    Save(worker, setup_.weights->data(), true, result);
  }
  session.LogFailures();
  result->failure = session.life().NotFinite();
  if (result->failure.empty()) result->failure = end.failure();
  if (result->failure.empty() && !result->tests.empty()) {
    result->failure =
        ScoreLoss(end.before(), {result->iteration, result->tests},
                  result->model.empty() ? "the saved model" : "the model at " + result->model);
  }
}

void RunCompletion::SaveIfGpuFailed(const std::vector<std::unique_ptr<SolverWorker>>& workers) {
  if (parts_.cluster != nullptr) return;
  try {
    parts_.errors.RethrowIfFailed();
  } catch (const DeviceError& failure) {
    const int64_t iteration = setup_.weights->clock().global();
    std::optional<Snapshot> snapshot;
    for (const auto& worker : workers) {
      if (!snapshot) snapshot = worker->FailureSnapshot(iteration, setup_.weights->data());
    }
    if (!snapshot) return;
    LOG(ERROR) << failure.what() << "; saving the weights of the host at iteration " << iteration;
    try {
      WriteLast(iteration, std::move(snapshot));
    } catch (const Error& error) {
      LOG(ERROR) << error.what();
    }
  } catch (const std::exception&) {
    // Not of a GPU: as without one, the snapshots written before remain.
  }
}

}  // namespace millrace::inline train
