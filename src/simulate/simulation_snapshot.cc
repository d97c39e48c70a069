// Snapshots of simulations: what SimulationCore saves between two parts of a run, and how it goes
// on.
#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/run_state.pb.h"
#include "simulate/simulation_core.h"
#include "solver/run_state.h"
#include "train/resume.h"

namespace millrace::inline simulate {

std::string SimulationCore::rule() const {
  const caffe::StrategyParameter& strategy = config_.param.strategy();
  const std::string merge = strategy.has_merge_rule() ? " " + strategy.merge_rule().type() : "";
  return StrCat("simulated ", strategy.type(), merge);
}

void SimulationCore::CheckResumed() const {
  if (!resume_->run) {
    throw Error(resume_->path, ": run_state: missing, expected that of a simulation with ",
                workers(), " workers");
  }
  CheckRunState(resume_->merge_state(), rule(), workers(), std::nullopt);
}

void SimulationCore::Resume() {
  const std::string& path = resume_->path;
  CheckRunState(resume_->merge_state(), rule(), workers(), static_cast<int64_t>(weights().size()));
  const std::string notice = ResumeNotice(*resume_, workers());
  if (!notice.empty()) LOG(WARNING) << notice;
  completed_ = saved_at_ = resume_->iteration();
  const std::vector<int64_t> totals = resume_->merge_state().Shared().Counts("totals", 2);
  trained_before_ns_ = totals[0];
  bytes_earlier_ = static_cast<uint64_t>(totals[1]);
  RunInThread(0, [&] { workers_[0].worker->LoadModel(resume_->model_path); });
  for (int w = 0; w < workers(); ++w) {
    RunInThread(w, [&, w] { worker(w).RestoreHistory(*resume_); });
  }
  beginning_ = Beginning{weights(), *resume_->run, path};
  LOG(INFO) << "Resuming from " << path << " at iteration " << completed_;
  Rewind();
}

// Training begins with the weights, histories and states of the workers, or with those of
// beginning_.
void SimulationCore::BeginPart() {
  const int64_t every = options_.snapshot_every;
  const int64_t limit = every > 0 ? (completed_ / every + 1) * every : INT64_MAX;
  const auto set = [&](SharedSchedule* schedule) {
    schedule->claimed = completed_;
    schedule->limit = limit;
  };
  set(&schedule_);
  for (Slot& slot : workers_) {
    if (SharedSchedule* const own = slot.worker->strategy().own_schedule()) set(own);
    if (!beginning_) continue;
    slot.worker->weights() = beginning_->weights;
    slot.worker->RestartExchange();
  }
  FormCluster();
  begin_ns_ = now_ns();
  bytes_before_ = network_.bytes_sent() - bytes_earlier_;
  for (Slot& slot : workers_) slot.worker->strategy().Start(Now());
  if (beginning_) RestoreParts();
}

void SimulationCore::RestoreParts() {
  const ContinuedState state{&beginning_->run, beginning_->path};
  RestoreShared(state.Shared());
  for (int w = 0; w < workers(); ++w) {
    worker(w).strategy().RestoreState(state.OfSolver(w));
    RestorePart(w, state.OfSolver(w));
  }
  beginning_.reset();
}

void SimulationCore::TakeSnapshot() {
  ReadMerged(&merged_);
  trained_before_ns_ = TrainedNs();
  bytes_earlier_ = network_.bytes_sent() - bytes_before_;
  Snapshot snapshot;
  snapshot.iteration = saved_at_ = completed_;
  snapshot.current_step = policy_.StepOfState(completed_);
  snapshot.format = config_.param.snapshot_format();
  snapshot.seed = config_.seed;
  RunState& run = snapshot.run;
  run.set_rule(rule());
  run.set_solvers(workers());
  run.set_weights(static_cast<int64_t>(weights().size()));
  const double totals[] = {static_cast<double>(trained_before_ns_),
                           static_cast<double>(bytes_earlier_)};
  AddNumbers("totals", totals, &run);
  ExportShared(&run);
  RunInThread(0, [&] { worker(0).net().ToProto(&snapshot.model, false, merged_.data()); });
  for (int w = 0; w < workers(); ++w) {
    RunInThread(w, [&, w] {
      snapshot.histories.push_back(std::make_shared<const History>(worker(w).ExportHistory()));
    });
    SolverPart part = worker(w).ExportPart();
    ExportPart(w, &part);
    snapshot.parts.push_back(std::make_shared<const SolverPart>(std::move(part)));
  }
  const SnapshotPaths paths = WriteSnapshot(config_.param.snapshot_prefix(), snapshot);
  LOG(INFO) << "Snapshotting the simulation to " << paths.state;
  beginning_ = Beginning{merged_, std::move(run), paths.state};
  for (const auto& part : snapshot.parts) *beginning_->run.add_solver() = *part;
}

}  // namespace millrace::inline simulate
