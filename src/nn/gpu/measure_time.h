// Time that a net may spend at its start on measuring algorithms.
#ifndef MILLRACE_NN_GPU_MEASURE_TIME_H_
#define MILLRACE_NN_GPU_MEASURE_TIME_H_

#include "millrace/clock.h"

namespace millrace::inline nn {

// Not thread-safe.
class MeasureTime {
 public:
  // `seconds`: the limit. `clock` outlives this object.
  MeasureTime(double seconds, const Clock& clock) : seconds_(seconds), clock_(clock) {}

  double seconds() const { return seconds_; }
  bool is_left() const { return spent_ < seconds_; }
  // Returns measure(), and counts the time that it takes.
  template <typename Measure>
  auto Spend(Measure measure) {
    const double begin = clock_.NowSeconds();
    const auto result = measure();
    spent_ += clock_.NowSeconds() - begin;
    return result;
  }

 private:
  const double seconds_;
  const Clock& clock_;
  double spent_ = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_MEASURE_TIME_H_
