// The metrics of a training process, and its counter file (millrace/metrics.h), which also has
// those of its segments.
#ifndef MILLRACE_TRAIN_RUN_COUNTERS_H_
#define MILLRACE_TRAIN_RUN_COUNTERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "metrics/registry.h"
#include "weights/iteration_clock.h"

namespace millrace::inline train {

// Times for which the solvers of a process have waited together, in ns.
struct SolverWaits {
  int64_t data_ns = 0;       // for batches
  int64_t processor_ns = 0;  // runnable, for a processor; 0 where the kernel does not count it
};

// Not thread-safe.
class RunCounters {
 public:
  // Adds the metrics to `registry` and publishes it as a counter file. If that is impossible (no
  // /dev/shm), logs a warning, because training works without the file. `iterations` outlives this
  // object. `images`: per iteration. `solvers`: of this process.
  RunCounters(std::shared_ptr<MetricsRegistry> registry, const std::string& title,
              const IterationClock* iterations, int64_t images, int solvers);

  // Times of a solver's iterations, in seconds. Valid as long as this object.
  Histogram* iteration_seconds() { return &iteration_seconds_; }

  // Writes the current values. `snapshot_failures`: failed attempts to write a snapshot.
  void Update(float loss, uint64_t snapshot_failures, const SolverWaits& waits);

 private:
  const std::shared_ptr<MetricsRegistry> registry_;
  const IterationClock& iterations_;
  const uint64_t images_;
  Gauge *iteration_, *loss_, *solvers_, *data_wait_, *processor_wait_;
  Counter *iterations_here_, *images_here_, *snapshot_failures_;
  Histogram iteration_seconds_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_RUN_COUNTERS_H_
