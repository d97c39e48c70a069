// The commands to a run and what is known of it, for programs that train in another thread and for
// the control service.
#ifndef MILLRACE_TRAIN_RUN_MONITOR_H_
#define MILLRACE_TRAIN_RUN_MONITOR_H_

#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "metrics/recent_rate.h"
#include "millrace/run.h"
#include "train/evaluation/evaluator.h"
#include "train/run_control.h"

namespace millrace::inline train {

// The control and the observer of a run, in front of others. Thread-safe, except for Next.
class RunMonitor : public RunHandle, public RunControl, public RunObserver {
 public:
  // `control` and `observer` get and give the same; null: none. Everything outlives this object.
  explicit RunMonitor(const Clock* clock, RunControl* control = nullptr,
                      RunObserver* observer = nullptr)
      : clock_(*clock), control_(control), observer_(observer), rate_(clock, 10) {}

  // Requests throw Error for a learning rate that is not finite or below 0, and, but for a stop,
  // once the run stops or has ended.
  RunStatus status() const override;
  void Pause() override { Request(RunCommand::kPause); }
  void Resume() override { Request(RunCommand::kResume); }
  void Snapshot() override { Request(RunCommand::kSnapshot); }
  void Test() override { Request(RunCommand::kTest); }
  void SetLearningRate(float rate) override { Request({RunCommand::kSetLearningRate, rate}); }
  void Stop() override { Request(RunCommand::kStop); }
  // The run has ended.
  void SetEnded();

  RunCommand Next(int milliseconds) override;
  void Joining(const std::string& node, const std::string& cluster) override;
  void Started(int64_t max_iteration, double images_per_iteration) override;
  void Iterated(int64_t completed, double loss) override;
  void Updated(float learning_rate) override;
  void Tested(int64_t iteration, int net, const Evaluation& evaluation) override;
  void Saved(int64_t iteration, const std::string& state) override;
  void Ended() override;

 private:
  void Request(RunCommand command);
  void SetState(RunStatus::State state);

  const Clock& clock_;
  RunControl* const control_;
  RunObserver* const observer_;
  RequestedCommands commands_;
  mutable std::mutex mutex_;
  RunStatus status_;
  RecentRate rate_;
  double started_seconds_ = 0;
};

// A test as RunStatus and RunResult have it.
RunTest TestOf(int64_t iteration, int net, const Evaluation& evaluation);

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_MONITOR_H_
