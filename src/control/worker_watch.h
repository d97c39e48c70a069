// A worker as a controller follows it: what it was told, and when it has done it.
#ifndef MILLRACE_CONTROL_WORKER_WATCH_H_
#define MILLRACE_CONTROL_WORKER_WATCH_H_

#include <functional>
#include <optional>
#include <string>

#include "millrace/controller.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// Sends requests to a worker's control service. Both throw Error.
struct WorkerConnection {
  std::function<control_api::Status()> status = {};
  std::function<void(const std::string& path, const std::string& body)> post = {};
};

// Not thread-safe.
class WorkerWatch {
 public:
  // A worker that has never answered is lost after `start_seconds`, else after `lost_seconds`.
  WorkerWatch(std::string name, WorkerConnection connection, double lost_seconds,
              double start_seconds);

  // Looks at the worker, and tells it what to do next if it has done what it was told. `seconds`:
  // the time, not before that of the last call. Throws Error for an instruction out of range, and
  // what the controller throws. Returns whether it was told something.
  bool Look(double seconds, Controller* controller);
  // Whether the worker has ended or is lost.
  bool gone() const { return gone_; }

 private:
  void OnAnswer(const control_api::Status& status);
  bool Done(const control_api::Status& status) const;
  void Tell(const Instruction& instruction, const control_api::Status& status);
  void Leave(const std::string& state, Controller* controller);

  const WorkerConnection connection_;
  const double lost_seconds_, start_seconds_;
  Worker worker_;
  std::optional<double> first_look_, last_answer_;
  std::optional<Instruction> told_;
  control_api::Status before_;  // when it was told
  bool gone_ = false;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_WORKER_WATCH_H_
