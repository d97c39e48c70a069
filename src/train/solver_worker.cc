#include "train/solver_worker.h"

#include <glog/logging.h>
#include <omp.h>

#include <algorithm>
#include <boost/thread/exceptions.hpp>
#include <cmath>
#include <utility>

namespace millrace {

NetOptions TrainNetOptions(const SolverConfig& config, DataService* data) {
  NetOptions options;
  options.state = config.train.state;
  options.seed = config.seed;
  options.data = data;
  return options;
}

SolverWorker::SolverWorker(int index, const SharedRun& run, std::unique_ptr<Net> net)
    : index_(index), run_(run), net_(std::move(net)) {}

void SolverWorker::Run() {
  std::optional<ThreadLoad::Member> member;
  if (run_.load != nullptr) member.emplace(run_.load);
  // Solvers run in parallel; each one computes on one thread.
  omp_set_num_threads(1);
  if (!net_) {
    net_ = std::make_unique<Net>(run_.config.train.param, run_.config.train.source,
                                 TrainNetOptions(run_.config, &run_.data));
  }
  net_->BindWeights(run_.weights.data());
  rule_ = UpdateRuleRegistry::Get().Create(run_.config.param, UpdateParamsOf(*net_),
                                           net_->layout().size());
  rule_->LockWith(&holder_.emplace(&run_.weights.locks()));
  if (run_.resume) RestoreHistory(*run_.resume, index_, rule_.get());

  IterationClock& clock = run_.weights.clock();
  const int slot = clock.RegisterSolver();
  try {
    while (!run_.stop.load(std::memory_order_relaxed)) {
      const std::optional<int64_t> iteration = clock.Claim(run_.config.param.max_iter());
      if (!iteration) break;
      const int64_t begin_ns = run_.clock.NowNs();
      Train(*iteration, CatchUp());
      clock.Done(slot);
      longest_ns_ = std::max(longest_ns_.load(), run_.clock.NowNs() - begin_ns);
      TakeSnapshots(*iteration + 1);
      run_.writer.Poll();
    }
    if (!run_.stop.load(std::memory_order_relaxed)) CatchUp();
  } catch (const boost::thread_interrupted&) {
    // The run was stopped while this solver waited for data.
  }
  clock.ReleaseSolver(slot);
  Write(run_.snapshots.Leave(index_, ExportHistory()));
}

bool SolverWorker::CatchUp() {
  if (run_.cluster == nullptr) return false;
  if (run_.distributed_evaluation != nullptr) run_.distributed_evaluation->Poll();
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
  if (!run_.tester.Due(iteration)) return;
  if (run_.distributed_evaluation != nullptr) {
    run_.distributed_evaluation->Begin(iteration);
  } else if (IsLeader()) {
    run_.tester.Run(iteration, [&] { return run_.stop.load(); });
  }
}

void SolverWorker::Train(int64_t iteration, bool display) {
  RunTest(iteration);
  const float loss = ComputeGradients(iteration);
  const float rate = run_.policy.Rate(iteration);
  run_.reporter.Iteration(iteration, loss, rate, *net_, display);
  const bool together =
      run_.weights.clock().solvers() > 1 || (run_.cluster != nullptr && !run_.cluster->alone());
  rule_->Apply(rate, together, net_->gradients(), run_.weights.data());
  net_->EndIteration();
}

float SolverWorker::ComputeGradients(int64_t iteration) {
  const int passes = run_.config.param.iter_size();
  net_->ClearGradients();
  float loss = 0;
  for (int pass = 0; pass < passes; ++pass) {
    net_->set_pass(iteration * passes + pass);
    loss += net_->Forward();
    if (!std::isfinite(loss)) {
      // Throw before the gradient reaches the shared weights.
      const std::string where = net_->FindNonFinite();
      throw NonFiniteLoss("iteration ", iteration, ": the loss is not finite (", loss, "); ",
                          where.empty() ? "all layers are finite" : where);
    }
    net_->Backward();
  }
  return loss / static_cast<float>(passes);
}

void SolverWorker::TakeSnapshots(int64_t completed) {
  const int interval = run_.config.param.snapshot();
  const bool scheduled = interval > 0 && completed % interval == 0;
  const bool requested = run_.snapshot_requested.exchange(false);
  // In a cluster, RunFinalizer takes the final snapshot once all nodes have the same weights.
  const bool at_end = run_.cluster != nullptr && completed >= run_.config.param.max_iter();
  if ((scheduled || requested) && !at_end) {
    Open(completed, requested || IsLeader());
  } else if (run_.duty != nullptr && !at_end && run_.duty->Owes()) {
    LOG(INFO) << "Making up for the snapshot of iteration " << run_.duty->owed()
              << ", which no node has written, at iteration " << completed;
    Open(completed, true);
  }
  if (run_.snapshots.Wants(index_)) Write(run_.snapshots.Deposit(index_, ExportHistory()));
}

void SolverWorker::Open(int64_t iteration, bool with_model) const {
  if (run_.duty != nullptr) {
    with_model ? run_.duty->Opened(iteration) : run_.duty->FellDue(iteration);
  }
  if (!with_model || run_.merged == nullptr) {
    return Write(run_.snapshots.Open(StartSnapshot(iteration, with_model)));
  }
  Snapshot snapshot;
  run_.merged->Read([&] { return run_.stop.load(); },
                    [&] {
                      net_->BindWeights(run_.merged->data());
                      snapshot = StartSnapshot(iteration, true);
                      net_->BindWeights(run_.weights.data());
                    });
  Write(run_.snapshots.Open(std::move(snapshot)));
}

Snapshot SolverWorker::StartSnapshot(int64_t iteration, bool with_model) const {
  Snapshot snapshot;
  snapshot.iteration = iteration;
  snapshot.current_step = run_.policy.Step(iteration);
  snapshot.seed = run_.config.seed;
  if (with_model) net_->ToProto(&snapshot.model, run_.config.param.snapshot_diff());
  snapshot.streams = run_.data.Positions("train");
  return snapshot;
}

void SolverWorker::Write(std::optional<Snapshot> snapshot) const {
  if (snapshot) run_.writer.Write(std::move(*snapshot));
}

std::optional<Snapshot> SolverWorker::FinalSnapshot(int64_t iteration, float* weights,
                                                    bool with_model) {
  net_->BindWeights(weights);
  return run_.snapshots.Open(StartSnapshot(iteration, with_model));
}

History SolverWorker::ExportHistory() const {
  History history;
  rule_->ExportHistory(&history);
  return history;
}

}  // namespace millrace
