// Whether and why a run ends before its schedule does.
#ifndef MILLRACE_TRAIN_RUN_STOP_H_
#define MILLRACE_TRAIN_RUN_STOP_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "train/run_control.h"

namespace millrace::inline train {

// For the run's main thread; other threads read and set `stop` and read `solvers_ended`.
struct RunStop {
  explicit RunStop(CommandReader* commands) : commands(*commands) {}

  // Whether the run is to stop. After the solvers have ended, when only the main thread calls this,
  // also waits up to `ms` ms for a command.
  bool Stopped(int ms) {
    if (solvers_ended && !stop && commands.Next(ms) == RunCommand::kStop) Stop();
    return stop;
  }
  // A command stops the run.
  void Stop() { stop = by_command = true; }
  // The run is to end early, or has.
  bool early() const { return by_command || condition_met; }

  CommandReader& commands;
  std::atomic<bool> stop{false};  // solvers end after their iterations
  std::atomic<bool> solvers_ended{false};
  bool by_command = false;
  bool condition_met = false;            // a stop condition has ended the run
  std::optional<int64_t> end_iteration;  // of a cluster's run that a condition has ended
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_STOP_H_
