#include "train/run_control.h"

#include <glog/logging.h>

#include <chrono>

namespace millrace::inline train {

namespace {

// Whether `after` makes `before` pointless: only the last command of a kind counts, and only the
// last of pauses and resumes.
bool Replaces(const RunCommand& after, const RunCommand& before) {
  const auto pauses = [](const RunCommand& command) {
    return command.kind == RunCommand::kPause || command.kind == RunCommand::kResume;
  };
  return after.kind == before.kind || (pauses(after) && pauses(before));
}

}  // namespace

void RequestedCommands::Add(RunCommand command) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const RunCommand& other) { return Replaces(command, other); });
    if (command.kind == RunCommand::kStop) {
      waiting_.push_front(command);
    } else {
      waiting_.push_back(command);
    }
  }
  changed_.notify_all();
}

RunCommand RequestedCommands::Next(int milliseconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                    [this] { return !waiting_.empty(); });
  if (waiting_.empty()) return RunCommand::kNone;
  const RunCommand command = waiting_.front();
  waiting_.pop_front();
  return command;
}

void RunRequests::Apply(const RunCommand& command) {
  switch (command.kind) {
    case RunCommand::kSnapshot:
      snapshot_ = true;
      break;
    case RunCommand::kTest:
      test_ = true;
      break;
    case RunCommand::kPause:
    case RunCommand::kResume: {
      std::lock_guard lock(mutex_);
      const bool pauses = command.kind == RunCommand::kPause;
      if (paused_.exchange(pauses) == pauses) return;
      LOG(INFO) << (pauses ? "Paused: no solver begins an iteration" : "Resumed");
    }
      resumed_.notify_all();
      break;
    case RunCommand::kSetLearningRate:
      learning_rate_ = command.learning_rate;
      if (command.learning_rate > 0) {
        LOG(INFO) << "Learning rate " << command.learning_rate
                  << " in place of that of the solver file";
      } else {
        LOG(INFO) << "Learning rate of the solver file";
      }
      break;
    case RunCommand::kStop:
    case RunCommand::kNone:
      break;
  }
}

void RunRequests::AwaitResume(int milliseconds) const {
  std::unique_lock lock(mutex_);
  resumed_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return !paused(); });
}

RunCommand CommandReader::Next(int milliseconds) {
  const RunCommand command = (control_ != nullptr ? control_ : &none_)->Next(milliseconds);
  requests_.Apply(command);
  if (command == RunCommand::kStop && !stopped_ns_) stopped_ns_ = clock_.NowNs();
  return command;
}

}  // namespace millrace::inline train
