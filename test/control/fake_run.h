// A run that only remembers what it was asked for.
#ifndef MILLRACE_TEST_CONTROL_FAKE_RUN_H_
#define MILLRACE_TEST_CONTROL_FAKE_RUN_H_

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "millrace/run.h"

namespace millrace::test {

// Thread-safe.
class FakeRun : public RunHandle {
 public:
  RunStatus status() const override {
    std::lock_guard lock(mutex_);
    return status_;
  }
  void Pause() override { Note("pause"); }
  void Resume() override { Note("resume"); }
  void Snapshot() override { Note("snapshot"); }
  void Test() override { Note("test"); }
  void SetLearningRate(float rate) override { Note("rate " + std::to_string(rate)); }
  void Stop() override { Note("stop"); }

  void Set(const RunStatus& status) {
    std::lock_guard lock(mutex_);
    status_ = status;
  }
  // What was asked for since the last call.
  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    return std::exchange(asked_, {});
  }
  // The error of further requests; "": none.
  void Refuse(const std::string& reason) { refusal_ = reason; }

 private:
  void Note(const std::string& what) {
    if (!refusal_.empty()) throw Error(refusal_);
    std::lock_guard lock(mutex_);
    asked_.push_back(what);
  }

  mutable std::mutex mutex_;
  RunStatus status_;
  std::vector<std::string> asked_;
  std::string refusal_;
};

// A run in its middle, with a test and a snapshot.
inline RunStatus SomeStatus() {
  RunStatus status;
  status.state = RunStatus::State::kTraining;
  status.iteration = 250;
  status.max_iteration = 1000;
  status.loss = 0.5;
  status.learning_rate = 0.125f;
  status.seconds = 25;
  status.iterations_per_second = 10;
  status.images_per_iteration = 64;
  status.tests = {{.iteration = 200, .net = 0, .outputs = {{"accuracy", 0.75}, {"loss", 0.625}}}};
  status.tests_done = 1;
  status.snapshots_written = 1;
  status.snapshot_iteration = 200;
  status.snapshot = "lenet_iter_200.solverstate";
  status.snapshot_unix_seconds = 1.5e9;
  return status;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_CONTROL_FAKE_RUN_H_
