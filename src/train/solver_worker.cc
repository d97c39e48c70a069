#include "train/solver_worker.h"

#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <boost/thread/exceptions.hpp>
#include <utility>

#include "solver/strategy_plan.h"
#include "train/train_nets.h"

namespace millrace::inline train {

// Solvers and links may write the weights meanwhile.
__attribute__((noinline)) void HogwildReadModel(const BuiltNet& net, bool with_diff,
                                                const float* weights, caffe::NetParameter* model) {
  net.ToProto(model, with_diff, weights);
}

SolverWorker::SolverWorker(int index, const SharedRun& run, std::unique_ptr<BuiltNet> net)
    : index_(index), run_(run), net_(std::move(net)) {}

void SolverWorker::Run() {
  std::optional<ThreadLoad::Member> member;
  if (run_.load != nullptr) member.emplace(run_.load);
  // Solvers run in parallel; each one computes on one thread.
  omp_set_num_threads(1);
  strategy_ = run_.make_strategy(index_);
  step_ = strategy_->synchronous();
  if (step_ == nullptr) return Train();
  try {
    Train();
  } catch (const StepFailure&) {
    if (step_ == nullptr) throw;  // after the last step
    // Another solver has failed and has reported it to all. This solver's sums end before the
    // memory of its net is freed.
    step_->Fail(std::current_exception());
    throw;
  } catch (const std::exception& error) {
    if (step_ == nullptr) throw;
    const StepFailure failure("solver ", step_->index(), ": ", error.what());
    step_->Fail(std::make_exception_ptr(failure));
    throw failure;
  }
}

void SolverWorker::Train() {
  if (net_ == nullptr) net_ = run_.make_net(&strategy_->device(), index_);
  solver_.emplace(run_.config, run_.policy, &run_.data, strategy_.get(), std::move(net_));
  if (run_.resume) solver_->Restore(*run_.resume, step_ ? step_->history() : index_);
  try {
    while (!Stops()) {
      if (Pauses()) {
        Pause();
        continue;
      }
      if (step_ == nullptr) run_.reporter.Taking(index_, run_.weights.clock().claimed());
      const std::optional<int64_t> iteration = solver_->Claim();
      if (!iteration) break;
      const int64_t begin_ns = run_.clock.NowNs();
      const bool display = CatchUp();
      if (step_ == nullptr) run_.reporter.Took(index_, *iteration, display || HasLines(*iteration));
      if (IsProcessLeader()) RunTest(*iteration);
      solver_->net().set_debug_info(IsDebugInfoDue(run_.config.param, *iteration));
      const StepResult step = solver_->Compute(*iteration);
      CountTime(begin_ns);
      if (run_.iteration_seconds != nullptr) {
        run_.iteration_seconds->Observe(1e-9 * (run_.clock.NowNs() - begin_ns));
      }
      if (run_.stop_conditions != nullptr && IsLeader() &&
          run_.stop_conditions->AfterIteration(run_.weights.clock().global())) {
        run_.stop = true;
      }
      if (!IsProcessLeader()) {
        FollowSnapshot(*iteration + 1);
        continue;
      }
      run_.reporter.Iteration(step, solver_->net(), display, index_);
      TakeSnapshots(*iteration + 1);
      run_.writer.Poll();
    }
    if (!run_.stop.load(std::memory_order_relaxed)) CatchUp();
  } catch (const boost::thread_interrupted&) {
    // The run was stopped while this solver waited for data. Others may use its gradients.
    if (step_ != nullptr) throw Error("the run ended while it waited for data");
  }
  run_.reporter.TakesNoMore(index_);
  strategy_->Flush();
  History history = solver_->ExportHistory();
  SolverPart part = ExportState();
  net_ = solver_->ReleaseNet();
  solver_.reset();
  // The strategy may have had weights of its own.
  if (&strategy_->device() == &HostDevice()) net_->BindWeights(run_.weights.data());
  step_ = nullptr;
  strategy_.reset();
  if (HasHistory()) Write(run_.snapshots.Leave(index_, std::move(history), std::move(part)));
}

bool SolverWorker::HasLines(int64_t iteration) const {
  const int interval = run_.config.param.display();
  return (interval > 0 && iteration % interval == 0) || run_.tester.Due(iteration) ||
         !run_.policy.Notice(iteration).empty();
}

bool SolverWorker::Pauses() const {
  if (!run_.requests.paused() || run_.stop) return false;
  return step_ == nullptr || (step_->leads_process() && step_->merged());
}

// Tests and snapshots that are asked for come at once. The pause counts as part of an iteration: in
// a cluster, others then wait for this node as for a long iteration.
void SolverWorker::Pause() {
  const int64_t begin_ns = run_.clock.NowNs();
  while (Pauses()) {
    CatchUp();
    const int64_t completed = run_.weights.clock().global();
    if (IsProcessLeader()) {
      if (run_.requests.TakeTest()) RunWholeTest(completed);
      TakeRequestedSnapshot(completed);
      run_.writer.Poll();
    }
    if (HasHistory()) Deposit();
    run_.requests.AwaitResume(20);
    CountTime(begin_ns);
  }
}

void SolverWorker::CountTime(int64_t begin_ns) {
  max_iteration_ns_ = std::max(max_iteration_ns_.load(), run_.clock.NowNs() - begin_ns);
}

bool SolverWorker::CatchUp() {
  if (run_.cluster == nullptr) return false;
  if (run_.distributed_evaluation != nullptr) {
    run_.distributed_evaluation->Poll();
    ApplyStopConditions();
  }
  bool display = false;
  const auto& param = run_.config.param;
  for (const IterationRange& range : run_.cluster->TakeRemoteIterations()) {
    display |= range.HoldsMultiple(param.display());
    // RunFinalizer runs the last test after all solvers have ended. If all iterations up to the end
    // arrive at once, the test before it is due here.
    const IterationRange before_end{range.first, std::min<int64_t>(range.end, param.max_iter())};
    if (before_end.HoldsMultiple(param.test_interval())) {
      RunTest(before_end.LastMultiple(param.test_interval()));
    }
    const IterationRange completed{range.first + 1, range.end + 1};
    if (!completed.HoldsMultiple(param.snapshot())) continue;
    const int64_t due = completed.LastMultiple(param.snapshot());
    if (due >= param.max_iter()) continue;  // see TakeSnapshots
    Open(due, IsLeader());
  }
  return display;
}

void SolverWorker::RunTest(int64_t iteration) {
  const bool requested = run_.requests.TakeTest();
  const bool due = run_.tester.Due(iteration);
  if (due && run_.distributed_evaluation != nullptr) {
    run_.distributed_evaluation->Begin(iteration);
  } else if ((due && IsLeader()) || requested) {
    RunWholeTest(iteration);
  }
}

void SolverWorker::RunWholeTest(int64_t iteration) {
  strategy_->Publish();
  run_.tester.Run(iteration, [&] { return run_.stop.load(); });
  ApplyStopConditions();
}

void SolverWorker::ApplyStopConditions() {
  if (run_.stop_conditions == nullptr || !IsLeader()) return;
  if (run_.tester.last_iteration() == run_.stop_conditions->tested()) return;
  const std::optional<TestScores> last = run_.tester.last();
  if (!last) return;
  std::vector<std::vector<double>> outputs;
  for (const Evaluation& net : last->nets) outputs.push_back(MeanOutputs(net));
  if (run_.stop_conditions->AfterTest(last->iteration, outputs)) run_.stop = true;
}

void SolverWorker::TakeSnapshots(int64_t completed) {
  const bool scheduled = IsSnapshotScheduled(completed);
  // In a cluster, RunFinalizer takes the final snapshot once all nodes have the same weights.
  const bool at_end = run_.cluster != nullptr && completed >= run_.config.param.max_iter();
  const bool taken = !at_end && TakeRequestedSnapshot(completed);
  if (scheduled && !at_end && !taken) {
    Open(completed, IsLeader());
  } else if (run_.duty != nullptr && !at_end && !taken && run_.duty->IsDue()) {
    LOG(INFO) << "Making up for the snapshot of iteration " << run_.duty->due()
              << ", which no node has written, at iteration " << completed;
    Open(completed, true);
  }
  if (scheduled) Meet();
  Deposit();
}

bool SolverWorker::TakeRequestedSnapshot(int64_t completed) {
  // A snapshot waits until the weights hold the progress of all solvers.
  if (step_ != nullptr && !step_->merged()) return false;
  if (!run_.requests.TakeSnapshot()) return false;
  Open(completed, run_.first_rank);
  return true;
}

bool SolverWorker::IsSnapshotScheduled(int64_t completed) const {
  const int interval = run_.config.param.snapshot();
  return interval > 0 && completed % interval == 0;
}

bool SolverWorker::HasHistory() const { return index_ < run_.snapshots.solvers(); }

void SolverWorker::Meet() {
  if (step_ != nullptr && run_.snapshots.solvers() > 1) step_->Meet();
}

void SolverWorker::FollowSnapshot(int64_t completed) {
  if (!HasHistory()) return;
  if (IsSnapshotScheduled(completed)) Meet();
  Deposit();
}

SolverPart SolverWorker::ExportState() const {
  SolverPart part;
  strategy_->ExportState(&part);
  return part;
}

void SolverWorker::Deposit() {
  if (!run_.snapshots.Wants(index_)) return;
  Write(run_.snapshots.Deposit(index_, solver_->ExportHistory(), ExportState()));
}

void SolverWorker::Open(int64_t iteration, bool with_model) {
  strategy_->Flush();
  const BuiltNet& net = solver_->net();
  const bool with_diff = run_.config.param.snapshot_diff();
  if (run_.duty != nullptr) {
    with_model ? run_.duty->OnOpened(iteration) : run_.duty->ExpectSnapshot(iteration);
  }
  if (!with_model || run_.merged == nullptr) {
    return Write(run_.snapshots.Open(
        StartSnapshot(net, iteration, with_model, with_diff, run_.weights.data())));
  }
  Snapshot snapshot;
  const bool whole = run_.merged->Read(
      [&] { return run_.stop.load(); },
      [&] { snapshot = StartSnapshot(net, iteration, true, with_diff, run_.merged->data()); });
  if (whole) return Write(run_.snapshots.Open(std::move(snapshot)));
  LOG(INFO) << "The snapshot of iteration " << iteration
            << " is not written: the run ended while its merged weights were read";
  // Another node may make up for it.
  if (run_.duty != nullptr) run_.duty->ExpectSnapshot(iteration);
}

Snapshot SolverWorker::StartSnapshot(const BuiltNet& net, int64_t iteration, bool with_model,
                                     bool with_diff, const float* weights) const {
  Snapshot snapshot;
  snapshot.iteration = iteration;
  snapshot.current_step = run_.policy.StepOfState(iteration);
  snapshot.format = run_.config.param.snapshot_format();
  snapshot.seed = run_.config.seed;
  if (with_model) HogwildReadModel(net, with_diff, weights, &snapshot.model);
  snapshot.streams = run_.data.Positions("train");
  snapshot.run = run_.config.strategy->StartRunState(run_.snapshots.solvers(), run_.weights.size());
  return snapshot;
}

void SolverWorker::Write(std::optional<Snapshot> snapshot) const {
  if (snapshot) run_.writer.Write(std::move(*snapshot));
}

std::optional<Snapshot> SolverWorker::FinalSnapshot(int64_t iteration, const float* weights,
                                                    bool with_model) {
  return run_.snapshots.Open(
      StartSnapshot(*net_, iteration, with_model, run_.config.param.snapshot_diff(), weights));
}

float SolverWorker::FinalLoss() {
  const auto& param = run_.config.param;
  net_->set_debug_info(false);
  net_->set_pass(static_cast<uint64_t>(param.max_iter()) * param.iter_size());
  const float loss = net_->Forward();
  // The pass counts in the statistics of BatchNorm layers, which the last test uses, as in Caffe.
  net_->EndIteration();
  return loss;
}

std::optional<Snapshot> SolverWorker::FailureSnapshot(int64_t iteration,
                                                      const float* weights) const {
  const BuiltNet* const net = solver_ ? &solver_->net() : net_.get();
  if (net == nullptr) return std::nullopt;
  return StartSnapshot(*net, iteration, true, false, weights);
}

}  // namespace millrace::inline train
