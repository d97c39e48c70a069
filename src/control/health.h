// What a node waits for, and which of its links are bad, by its metrics.
#ifndef MILLRACE_CONTROL_HEALTH_H_
#define MILLRACE_CONTROL_HEALTH_H_

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "millrace/metrics.h"
#include "proto/control.pb.h"

namespace millrace::inline control {

// Compares the metrics of now with those of some seconds ago. Not thread-safe.
class HealthMonitor {
 public:
  static constexpr double kWindowSeconds = 5;
  // A node waits for its data or processor above this share of its solvers' time, and for the
  // network above this share of delayed progress.
  static constexpr double kMaxWaitShare = 0.2, kMaxDelayedShare = 0.5;
  // A link loses frames above this share of resent diffs, if it has sent so many, and is slow above
  // this median round trip or age.
  static constexpr double kMaxResentShare = 0.05, kMinDiffs = 50, kMaxSeconds = 2;

  // `seconds`: the time of the reading, not before that of the last one. `trains`: the run is not
  // paused, starting or ending; else nothing is a problem.
  void Add(double seconds, const MetricsReading& reading, bool trains);
  // Returns that of the last kWindowSeconds; empty before two readings.
  control_api::Health health() const;

 private:
  // Values by family, segment and peer ("" where there is none), summed over other labels.
  struct Key {
    std::string name = "", segment = "", peer = "";
    auto operator<=>(const Key&) const = default;
  };
  using Values = std::map<Key, double>;
  struct Sample {
    double seconds = 0;
    bool trains = false;
    Values values = {};
  };

  double Now(const Key& key) const;
  double Increase(const Key& key) const;
  void AddWaits(double seconds, control_api::Health* health) const;
  void AddLinks(double seconds, bool trains, control_api::Health* health) const;

  std::deque<Sample> samples_;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_HEALTH_H_
