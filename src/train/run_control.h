// The connection between a run and the program that hosts it: commands to the run, and its
// progress.
#ifndef MILLRACE_TRAIN_RUN_CONTROL_H_
#define MILLRACE_TRAIN_RUN_CONTROL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace millrace::inline train {

// A command to a run.
struct RunCommand {
  enum Kind {
    kNone,
    kStop,             // finish the current iterations, save, end
    kSnapshot,         // write a snapshot and go on
    kTest,             // run the test nets and go on
    kPause,            // begin no further iteration
    kResume,           // end a pause
    kSetLearningRate,  // learning_rate replaces that of the solver file
  };
  RunCommand(Kind kind = kNone, float learning_rate = 0)  // NOLINT(google-explicit-constructor)
      : kind(kind), learning_rate(learning_rate) {}
  bool operator==(const RunCommand&) const = default;

  Kind kind;
  float learning_rate;  // > 0; 0: that of the solver file again
};

// Where a run receives its commands.
class RunControl {
 public:
  virtual ~RunControl() = default;
  // Waits up to `milliseconds` for a command and returns it; kNone if there is none. Only the
  // thread that called Train calls it, every 50 ms or more often.
  virtual RunCommand Next(int milliseconds) = 0;
};

// Commands from other threads of the program. Thread-safe.
class RequestedCommands : public RunControl {
 public:
  void Stop() { Add(RunCommand::kStop); }
  void Snapshot() { Add(RunCommand::kSnapshot); }
  // The run receives the commands in this order, except that a stop precedes all others. Of several
  // that wait, the last pause or resume counts, and the last of each other kind.
  void Add(RunCommand command);
  RunCommand Next(int milliseconds) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RunCommand> waiting_;
};

struct Evaluation;

// Receives the progress of a run. The run's threads call it, one at a time; the functions that
// have a body here are called by several at a time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // The process is this node of a cluster. Before it joins.
  virtual void Joining(const std::string& node, const std::string& cluster) {
    (void)node, (void)cluster;
  }
  // Before the first iteration. `max_iteration`: end of the schedule. `images_per_iteration`: of
  // one solver.
  virtual void Started(int64_t max_iteration, double images_per_iteration) = 0;
  // A solver of this process has completed an iteration. `completed`: its number plus one; `loss`:
  // smoothed.
  virtual void Iterated(int64_t completed, double loss) = 0;
  // After the last iteration.
  virtual void Ended() = 0;

  // The learning rate of an iteration that a solver of this process has completed.
  virtual void Updated(float learning_rate) { (void)learning_rate; }
  // Test net `net`, from 0, has been tested at `iteration`.
  virtual void Tested(int64_t iteration, int net, const Evaluation& evaluation) {
    (void)iteration, (void)net, (void)evaluation;
  }
  // The snapshot of `iteration` has been written; `state`: its .solverstate.
  virtual void Saved(int64_t iteration, const std::string& state) { (void)iteration, (void)state; }
};

// What commands ask of the solvers of a run. Thread-safe.
class RunRequests {
 public:
  // Stops and kNone change nothing here.
  void Apply(const RunCommand& command);

  bool paused() const { return paused_.load(std::memory_order_relaxed); }
  // Returns when the run is not paused, after `milliseconds` at the latest.
  void AwaitResume(int milliseconds) const;
  // Whether a snapshot, or a test, has been asked for since the last call.
  bool TakeSnapshot() { return Take(&snapshot_); }
  bool TakeTest() { return Take(&test_); }
  // That replaces the rate of the solver file; 0: none.
  const std::atomic<float>& learning_rate() const { return learning_rate_; }

 private:
  static bool Take(std::atomic<bool>* flag) {
    return flag->load(std::memory_order_relaxed) && flag->exchange(false);
  }

  std::atomic<bool> paused_{false}, snapshot_{false}, test_{false};
  std::atomic<float> learning_rate_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable resumed_;
};

// Reads the commands of a run, gives those for its solvers to RunRequests, and keeps the time of
// the first stop. Not thread-safe, except for requests().
class CommandReader {
 public:
  // Both outlive this object. Null: no commands; Next then only waits.
  CommandReader(RunControl* control, const Clock* clock) : control_(control), clock_(*clock) {}

  RunCommand Next(int milliseconds);
  RunRequests& requests() { return requests_; }
  // When Next first returned kStop; none before that.
  std::optional<int64_t> stopped_ns() const { return stopped_ns_; }

 private:
  RequestedCommands none_;
  RunRequests requests_;
  RunControl* const control_;
  const Clock& clock_;
  std::optional<int64_t> stopped_ns_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_CONTROL_H_
