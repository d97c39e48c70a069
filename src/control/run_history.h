// The course of a run: points for curves, and events. Both are limited in number.
#ifndef MILLRACE_CONTROL_RUN_HISTORY_H_
#define MILLRACE_CONTROL_RUN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "millrace/run.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// For curves. Not thread-safe.
class RunHistory {
 public:
  static constexpr size_t kMaxPoints = 600;

  // Adds a point if there is a new iteration and the last point is old enough: when there are
  // kMaxPoints, every second one goes, and the distance between points doubles from then on.
  void Add(const RunStatus& status);
  control_api::History message() const;

 private:
  struct Point {
    double seconds = 0;
    int64_t iteration = 0;
    double loss = 0, learning_rate = 0, iterations_per_second = 0;
  };

  std::vector<Point> points_;
  double distance_seconds_ = 0.5;
  std::deque<RunTest> tests_;
  int64_t tests_done_ = 0;
};

// A change of a run's state, a test, a snapshot or a change of the learning rate.
struct RunEvent {
  uint64_t id = 0;
  std::string kind = "";  // "state", "test", "snapshot" or "learning_rate"
  std::string data = "";  // JSON of a control_api.Status
};

// The last events, found by comparing one status with the next. Not thread-safe.
class EventLog {
 public:
  static constexpr size_t kMaxEvents = 256;

  // Adds what has changed since the last call, with `json` as data. The first call adds the state.
  void Add(const RunStatus& status, const std::string& json);
  // Those later than `id` that are kept, in order.
  std::vector<RunEvent> After(uint64_t id) const;
  uint64_t last_id() const { return last_id_; }

 private:
  void Append(const char* kind, const std::string& json);

  std::deque<RunEvent> events_;
  uint64_t last_id_ = 0;
  bool has_status_ = false;
  RunStatus last_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_RUN_HISTORY_H_
