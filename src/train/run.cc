#include "millrace/run.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/registration.h"
#include "train/choose_gpus.h"
#include "train/run_monitor.h"
#include "train/train_run.h"

namespace millrace {

const char* NameOf(RunStatus::State state) {
  switch (state) {
    case RunStatus::State::kStarting:
      return "starting";
    case RunStatus::State::kTraining:
      return "training";
    case RunStatus::State::kPaused:
      return "paused";
    case RunStatus::State::kStopping:
      return "stopping";
    case RunStatus::State::kEnded:
      break;
  }
  return "ended";
}

namespace {

class BackgroundRun : public Run {
 public:
  explicit BackgroundRun(const RunOptions& options)
      : thread_([this, options] { Train(options); }) {}
  ~BackgroundRun() override {
    Stop();
    thread_.join();
  }

  RunStatus status() const override { return monitor_.status(); }
  void Pause() override { monitor_.Pause(); }
  void Resume() override { monitor_.Resume(); }
  void Snapshot() override { monitor_.Snapshot(); }
  void Test() override { monitor_.Test(); }
  void SetLearningRate(float rate) override { monitor_.SetLearningRate(rate); }
  void Stop() override { monitor_.Stop(); }

  bool WaitFor(double seconds) override {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [this] { return has_ended_; });
  }
  RunResult Wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_; });
    if (error_) std::rethrow_exception(error_);
    return result_;
  }

 private:
  void Train(const RunOptions& options) {
    RunResult result;
    std::exception_ptr error;
    try {
      CheckRegistrations();
      result = TrainTo(options);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    monitor_.SetEnded();
    {
      std::lock_guard lock(mutex_);
      result_ = result;
      error_ = error;
      has_ended_ = true;
    }
    ended_.notify_all();
  }

  RunResult TrainTo(const RunOptions& options) {
    TrainOptions train;
    train.solver_file = options.solver_file;
    train.solvers = options.cpus;
    train.gpus = ChooseGpus(options.gpus);
    train.gpu_settings = GpuSettingsFor(options.precision);
    train.weights = options.weights;
    train.snapshot = options.snapshot;
    train.metrics = options.metrics_file;
    train.tensorboard = options.tensorboard;
    train.topology = options.topology;
    train.node = options.node;
    train.rendezvous.url = options.rendezvous;
    train.rendezvous.nodes = options.nodes;
    train.registry = options.metrics;
    train.control = &monitor_;
    train.observer = &monitor_;
    const TrainResult done = millrace::Train(train);
    if (!done.failure.empty()) throw Error(done.failure);
    RunResult result{.iteration = done.iteration,
                     .stopped_early = done.stopped_early,
                     .loss = done.loss,
                     .tests = {},
                     .model = done.model,
                     .state = done.state};
    for (size_t i = 0; i < done.tests.size(); ++i) {
      result.tests.push_back(TestOf(done.iteration, static_cast<int>(i), done.tests[i]));
    }
    return result;
  }

  const SteadyClock clock_;
  RunMonitor monitor_{&clock_};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  RunResult result_;
  std::exception_ptr error_;
  std::thread thread_;  // the last, which uses the others
};

}  // namespace

std::unique_ptr<Run> Run::Start(const RunOptions& options) {
  return std::make_unique<BackgroundRun>(options);
}

}  // namespace millrace
