#include "train/run_monitor.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"

namespace millrace::inline train {

using State = RunStatus::State;

RunTest TestOf(int64_t iteration, int net, const Evaluation& evaluation) {
  RunTest test{.iteration = iteration, .net = net, .outputs = {}};
  for (const OutputMean& output : evaluation.outputs) {
    test.outputs.push_back({output.name, output.mean});
  }
  return test;
}

void RunMonitor::Request(RunCommand command) {
  const float rate = command.learning_rate;
  if (command.kind == RunCommand::kSetLearningRate && !(std::isfinite(rate) && rate >= 0)) {
    throw Error("learning rate ", rate, ": expected a finite number of at least 0");
  }
  std::lock_guard lock(mutex_);
  if (command.kind == RunCommand::kStop) {
    if (status_.state != State::kEnded) status_.state = State::kStopping;
  } else if (status_.state == State::kEnded) {
    throw Error("the run has ended");
  } else if (status_.state == State::kStopping) {
    throw Error("the run is about to end");
  }
  if (command.kind == RunCommand::kPause) status_.state = State::kPaused;
  if (command.kind == RunCommand::kResume && status_.state == State::kPaused) {
    status_.state = status_.max_iteration > 0 ? State::kTraining : State::kStarting;
  }
  if (command.kind == RunCommand::kSetLearningRate) status_.set_learning_rate = rate;
  commands_.Add(command);
}

RunStatus RunMonitor::status() const {
  std::lock_guard lock(mutex_);
  RunStatus status = status_;
  status.iterations_per_second = rate_.PerSecond();
  if (status.max_iteration > 0 && status.state != State::kEnded) {
    status.seconds = clock_.NowSeconds() - started_seconds_;
  }
  return status;
}

void RunMonitor::SetState(State state) {
  std::lock_guard lock(mutex_);
  status_.state = state;
}

void RunMonitor::SetEnded() {
  std::lock_guard lock(mutex_);
  status_.seconds = status_.max_iteration > 0 ? clock_.NowSeconds() - started_seconds_ : 0;
  status_.state = State::kEnded;
}

RunCommand RunMonitor::Next(int milliseconds) {
  // With another control, looks at both by turns, every 10 ms.
  for (const double end = clock_.NowSeconds() + milliseconds / 1e3;;) {
    const int left = static_cast<int>((end - clock_.NowSeconds()) * 1e3);
    const int wait = std::clamp(left, 0, 10);
    RunCommand command = control_ != nullptr ? control_->Next(0) : RunCommand();
    if (command == RunCommand::kStop) SetState(State::kStopping);
    if (command == RunCommand::kNone) command = commands_.Next(control_ != nullptr ? wait : left);
    if (command != RunCommand::kNone || left <= 0) return command;
  }
}

void RunMonitor::Joining(const std::string& node, const std::string& cluster) {
  {
    std::lock_guard lock(mutex_);
    status_.node = node;
    status_.cluster = cluster;
  }
  if (observer_ != nullptr) observer_->Joining(node, cluster);
}

void RunMonitor::Started(int64_t max_iteration, double images_per_iteration) {
  {
    std::lock_guard lock(mutex_);
    status_.max_iteration = max_iteration;
    status_.images_per_iteration = images_per_iteration;
    started_seconds_ = clock_.NowSeconds();
    if (status_.state == State::kStarting) status_.state = State::kTraining;
  }
  if (observer_ != nullptr) observer_->Started(max_iteration, images_per_iteration);
}

void RunMonitor::Iterated(int64_t completed, double loss) {
  {
    std::lock_guard lock(mutex_);
    status_.iteration = std::max(status_.iteration, completed);
    status_.loss = loss;
    rate_.Add(status_.iteration);
  }
  if (observer_ != nullptr) observer_->Iterated(completed, loss);
}

void RunMonitor::Updated(float learning_rate) {
  {
    std::lock_guard lock(mutex_);
    status_.learning_rate = learning_rate;
  }
  if (observer_ != nullptr) observer_->Updated(learning_rate);
}

void RunMonitor::Tested(int64_t iteration, int net, const Evaluation& evaluation) {
  {
    std::lock_guard lock(mutex_);
    const auto is_later = [&](const RunTest& test) { return test.net >= net; };
    auto& tests = status_.tests;
    auto place = std::find_if(tests.begin(), tests.end(), is_later);
    if (place == tests.end() || place->net != net) place = tests.insert(place, RunTest());
    *place = TestOf(iteration, net, evaluation);
    ++status_.tests_done;
  }
  if (observer_ != nullptr) observer_->Tested(iteration, net, evaluation);
}

void RunMonitor::Saved(int64_t iteration, const std::string& state) {
  {
    std::lock_guard lock(mutex_);
    ++status_.snapshots_written;
    status_.snapshot_iteration = iteration;
    status_.snapshot = state;
    status_.snapshot_unix_seconds = UnixSeconds();
  }
  if (observer_ != nullptr) observer_->Saved(iteration, state);
}

void RunMonitor::Ended() {
  SetState(State::kStopping);
  if (observer_ != nullptr) observer_->Ended();
}

}  // namespace millrace::inline train
