#include "millrace/controller.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/files/file.h"
#include "control/cluster_addresses.h"
#include "control/control_client.h"
#include "control/run_report.h"
#include "control/worker_watch.h"
#include "proto/control_files.pb.h"

namespace millrace {
namespace {

constexpr double kStartSeconds = 60;

std::vector<ControlTarget> TargetsOf(const ControllerOptions& options) {
  const ControlTarget common{.topology = options.topology,
                             .key_file = options.key_file,
                             .tls = options.tls,
                             .authorities = options.authorities};
  std::vector<ControlTarget> targets;
  for (const auto& [name, address] : ReadClusterAddresses(options.topology, "", false).nodes) {
    if (address.empty()) continue;
    targets.push_back(common);
    targets.back().node = name;
  }
  for (const std::string& address : options.addresses) {
    targets.push_back(common);
    targets.back().address = address;
    targets.back().topology.clear();
  }
  if (targets.empty()) {
    throw Error("controller: expected a topology whose nodes have `control`, or addresses");
  }
  return targets;
}

// Finds the service anew with each request: a worker that was started again may have another key.
WorkerConnection ConnectionTo(const ControlTarget& target) {
  return {
      .status = [target] { return ControlClient::Find(target).Status(); },
      .post = [target](const std::string& path,
                       const std::string& body) { ControlClient::Find(target).Post(path, body); }};
}

void Save(const std::string& path, const std::string& state) {
  AtomicFile file(path);
  file.Write(state + "\n");
  file.Commit();
}

void RestoreFrom(const std::string& path, Controller* controller) {
  if (path.empty() || !FileExists(path)) return;
  std::string state = ReadFile(path);
  if (state.ends_with('\n')) state.pop_back();
  try {
    controller->Restore(state);
  } catch (const Error& error) {
    throw Error(path, ": ", error.what());
  }
}

// Refuses commands that no worker can execute.
class Checked : public Controller {
 public:
  explicit Checked(Controller* controller) : controller_(*controller) {}
  Instruction Next(const Worker& worker) override {
    const Instruction instruction = controller_.Next(worker);
    if (instruction.kind == Instruction::kTrain && instruction.iterations < 1) {
      throw Error("controller: train ", instruction.iterations, ": expected at least 1 iteration");
    }
    const float rate = instruction.rate;
    if (instruction.kind == Instruction::kSetLearningRate && !(std::isfinite(rate) && rate >= 0)) {
      throw Error("controller: learning rate ", rate, ": expected a finite number of at least 0");
    }
    return instruction;
  }
  void Left(const Worker& worker) override { controller_.Left(worker); }

 private:
  Controller& controller_;
};

}  // namespace

void RunController(Controller* controller, const ControllerOptions& options) {
  if (!(options.poll_seconds > 0 && options.lost_seconds > 0)) {
    throw Error("controller: expected times above 0 s");
  }
  RestoreFrom(options.state_file, controller);
  std::vector<std::unique_ptr<WorkerWatch>> workers;
  for (const ControlTarget& target : TargetsOf(options)) {
    workers.push_back(std::make_unique<WorkerWatch>(
        target.node.empty() ? target.address : target.node, ConnectionTo(target),
        options.lost_seconds, std::max(kStartSeconds, options.lost_seconds)));
  }
  Checked checked(controller);
  const SteadyClock clock;
  const auto gone = [](const auto& worker) { return worker->gone(); };
  while (!std::all_of(workers.begin(), workers.end(), gone)) {
    if (options.stopped && options.stopped()) return;
    for (const auto& worker : workers) {
      const bool was_told = worker->Look(clock.NowSeconds(), &checked);
      if (was_told && !options.state_file.empty()) Save(options.state_file, controller->State());
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.poll_seconds));
  }
}

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  if (options_.test_every < 1 || options_.patience < 1) {
    throw Error("early stopping: test_every ", options_.test_every, " and patience ",
                options_.patience, ": expected at least 1");
  }
}

Instruction EarlyStopping::Next(const Worker& worker) {
  if (stops_) return Instruction::Stop();
  if (tester_.empty()) {
    tester_ = worker.name;
    last_ = Instruction::kTrain;
    return Instruction::Train(options_.test_every);
  }
  // The other workers need to learn of a stop only.
  if (worker.name != tester_) return Instruction::Train(1);
  Instruction next = Instruction::Train(options_.test_every);
  if (last_ == Instruction::kTrain) next = Instruction::Test();
  if (last_ == Instruction::kTest) next = AfterTest(worker);
  if (last_ == Instruction::kSnapshot) best_snapshot_ = worker.snapshot;
  last_ = next.kind;
  return next;
}

Instruction EarlyStopping::AfterTest(const Worker& worker) {
  const auto found = worker.outputs.find(options_.output);
  if (found == worker.outputs.end()) {
    std::string known;
    for (const auto& [name, value] : worker.outputs) known += (known.empty() ? "" : ", ") + name;
    throw Error("early stopping: the test has no output \"", options_.output,
                "\", expected one of ", known);
  }
  // A test that was requested, but not run yet.
  if (worker.test_iteration <= tested_) return Instruction::Test();
  tested_ = worker.test_iteration;
  const double value = found->second;
  const bool is_better = options_.greater_is_better ? value > best_ : value < best_;
  if (best_iteration_ < 0 || is_better) {
    best_ = value;
    best_iteration_ = worker.test_iteration;
    without_better_ = 0;
    return Instruction::Snapshot();
  }
  stops_ = ++without_better_ >= options_.patience;
  return stops_ ? Instruction::Stop() : Instruction::Train(options_.test_every);
}

void EarlyStopping::Left(const Worker& worker) {
  if (worker.name == tester_) tester_.clear();
}

std::string EarlyStopping::State() const {
  control_files::EarlyStoppingState state;
  state.set_best(best_);
  state.set_best_iteration(static_cast<int32_t>(best_iteration_));
  state.set_best_snapshot(best_snapshot_);
  state.set_without_better(without_better_);
  return JsonOf(state);
}

void EarlyStopping::Restore(const std::string& text) {
  control_files::EarlyStoppingState state;
  ReadJson(text, "state of early stopping", &state);
  best_ = state.best();
  best_iteration_ = state.has_best_iteration() ? state.best_iteration() : -1;
  best_snapshot_ = state.best_snapshot();
  without_better_ = state.without_better();
}

}  // namespace millrace
