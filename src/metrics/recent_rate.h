// The speed of a run, as people are shown it.
#ifndef MILLRACE_METRICS_RECENT_RATE_H_
#define MILLRACE_METRICS_RECENT_RATE_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"

namespace millrace::inline metrics {

// The recent rate of increase of a count. Not thread-safe.
class RecentRate {
 public:
  // Measures over the last `window_seconds`. `clock` outlives this object.
  RecentRate(const Clock* clock, double window_seconds)
      : clock_(clock), window_seconds_(window_seconds) {}

  // Records that the count is `count` now. A count lower than the last one restarts the
  // measurement.
  void Add(int64_t count);
  // Per second; nullopt before two counts at different times.
  std::optional<double> PerSecond() const;

 private:
  struct Sample {
    double seconds;
    int64_t count;
  };
  const Clock* clock_;
  const double window_seconds_;
  std::deque<Sample> samples_;  // within the window, and one older sample
};

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_RECENT_RATE_H_
