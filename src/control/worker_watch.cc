#include "control/worker_watch.h"

#include <glog/logging.h>

#include <utility>

#include "base/error.h"
#include "control/run_report.h"

namespace millrace::inline control {

WorkerWatch::WorkerWatch(std::string name, WorkerConnection connection, double lost_seconds,
                         double start_seconds)
    : connection_(std::move(connection)),
      lost_seconds_(lost_seconds),
      start_seconds_(start_seconds) {
  worker_.name = std::move(name);
}

bool WorkerWatch::Look(double seconds, Controller* controller) {
  if (!first_look_) first_look_ = seconds;
  control_api::Status status;
  try {
    status = connection_.status();
  } catch (const Error& error) {
    const double limit =
        last_answer_ ? *last_answer_ + lost_seconds_ : *first_look_ + start_seconds_;
    if (!gone_ && seconds >= limit) {
      LOG(WARNING) << "Worker " << worker_.name << " is lost: " << error.what();
      Leave("lost", controller);
    }
    return false;
  }
  last_answer_ = seconds;
  OnAnswer(status);
  if (status.state() == "ended" || status.state() == "stopping") {
    if (status.state() == "ended" && !gone_) Leave("ended", controller);
    return false;
  }
  if (gone_) told_.reset();  // has come back
  gone_ = false;
  const bool runs = status.state() == "training" || status.state() == "paused";
  if (!runs || !Done(status)) return false;
  const Instruction instruction = controller->Next(worker_);
  try {
    Tell(instruction, status);
  } catch (const Error& error) {
    // The worker has ended meanwhile, or cannot be reached: the next look shows it.
    told_.reset();
    LOG(WARNING) << "Worker " << worker_.name << ": " << error.what();
    return false;
  }
  return true;
}

void WorkerWatch::OnAnswer(const control_api::Status& status) {
  worker_.state = status.state();
  worker_.iteration = status.iteration();
  worker_.max_iteration = status.max_iteration();
  worker_.loss = status.loss();
  worker_.learning_rate = status.learning_rate();
  if (status.has_snapshot()) worker_.snapshot = status.snapshot();
  if (status.test_size() == 0) return;
  const control_api::Test& test = status.test(0);
  worker_.test_iteration = test.iteration();
  worker_.outputs = {test.output().begin(), test.output().end()};
}

bool WorkerWatch::Done(const control_api::Status& status) const {
  if (!told_) return true;
  // A worker that was started again has lost the commands that it received.
  if (status.pid() != before_.pid() || status.tests_done() < before_.tests_done()) return true;
  switch (told_->kind) {
    case Instruction::kTrain:
      return status.iteration() >= before_.iteration() + told_->iterations;
    case Instruction::kTest:
      return status.tests_done() > before_.tests_done();
    case Instruction::kSnapshot:
      return status.snapshots_written() > before_.snapshots_written();
    case Instruction::kStop:
      return false;
    case Instruction::kSetLearningRate:
    case Instruction::kPause:
      break;
  }
  return true;
}

void WorkerWatch::Tell(const Instruction& instruction, const control_api::Status& status) {
  told_ = instruction;
  before_ = status;
  const bool was_paused = status.state() == "paused";
  switch (instruction.kind) {
    case Instruction::kTrain:
      if (was_paused) connection_.post("/v1/resume", "");
      return;
    case Instruction::kTest:
      return connection_.post("/v1/test", "");
    case Instruction::kSnapshot:
      return connection_.post("/v1/snapshot", "");
    case Instruction::kSetLearningRate: {
      control_api::LearningRate message;
      message.set_rate(instruction.rate);
      return connection_.post("/v1/learning_rate", JsonOf(message));
    }
    case Instruction::kPause:
      if (!was_paused) connection_.post("/v1/pause", "");
      return;
    case Instruction::kStop:
      return connection_.post("/v1/stop", "");
  }
}

void WorkerWatch::Leave(const std::string& state, Controller* controller) {
  gone_ = true;
  worker_.state = state;
  controller->Left(worker_);
}

}  // namespace millrace::inline control
