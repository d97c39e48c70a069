// The course of a run in a limited number of points, for curves.
#ifndef MILLRACE_CONTROL_RUN_HISTORY_H_
#define MILLRACE_CONTROL_RUN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "millrace/run.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// Not thread-safe.
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

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_RUN_HISTORY_H_
