#include "train/run_control.h"

#include <chrono>
#include <utility>

namespace millrace::inline train {

void RequestedCommands::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void RequestedCommands::Snapshot() {
  {
    std::lock_guard lock(mutex_);
    snapshot_ = true;
  }
  changed_.notify_all();
}

RunCommand RequestedCommands::Next(int milliseconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                    [this] { return stop_ || snapshot_; });
  if (std::exchange(stop_, false)) return RunCommand::kStop;
  if (std::exchange(snapshot_, false)) return RunCommand::kSnapshot;
  return RunCommand::kNone;
}

RunCommand CommandReader::Next(int milliseconds) {
  const RunCommand command = (control_ != nullptr ? control_ : &none_)->Next(milliseconds);
  if (command == RunCommand::kStop && !stopped_ns_) stopped_ns_ = clock_.NowNs();
  return command;
}

}  // namespace millrace::inline train
