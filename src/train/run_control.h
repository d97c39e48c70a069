// The connection between a run and the program that hosts it: commands to the run, and its
// progress.
#ifndef MILLRACE_TRAIN_RUN_CONTROL_H_
#define MILLRACE_TRAIN_RUN_CONTROL_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "millrace/export.h"

namespace millrace::inline train {

enum class RunCommand {
  kNone,
  kStop,      // finish the current iterations, save, end
  kSnapshot,  // write a snapshot and go on
};

// Where a run receives its commands.
class MILLRACE_API RunControl {
 public:
  virtual ~RunControl() = default;
  // Waits up to `milliseconds` for a command and returns it; kNone if there is none. Only the
  // thread that called Train calls it, every 50 ms or more often.
  virtual RunCommand Next(int milliseconds) = 0;
};

// Commands from other threads of the program. Thread-safe.
class MILLRACE_API RequestedCommands : public RunControl {
 public:
  // The run receives each command once; a stop precedes snapshots.
  void Stop();
  void Snapshot();
  RunCommand Next(int milliseconds) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false, snapshot_ = false;
};

// Receives the progress of a run. The run's threads call it, one at a time.
class MILLRACE_API RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Before the first iteration. `max_iteration`: end of the schedule. `images_per_iteration`: of
  // one solver.
  virtual void Started(int64_t max_iteration, double images_per_iteration) = 0;
  // A solver of this process has completed an iteration. `completed`: its number plus one; `loss`:
  // smoothed.
  virtual void Iterated(int64_t completed, double loss) = 0;
  // After the last iteration.
  virtual void Ended() = 0;
};

// Reads the commands of a run and keeps the time of the first stop. Not thread-safe.
class CommandReader {
 public:
  // Both outlive this object. Null: no commands; Next then only waits.
  CommandReader(RunControl* control, const Clock* clock) : control_(control), clock_(*clock) {}

  RunCommand Next(int milliseconds);
  // When Next first returned kStop; none before that.
  std::optional<int64_t> stopped_ns() const { return stopped_ns_; }

 private:
  RequestedCommands none_;
  RunControl* const control_;
  const Clock& clock_;
  std::optional<int64_t> stopped_ns_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_CONTROL_H_
