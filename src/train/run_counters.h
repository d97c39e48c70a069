// The counter file (metrics/counter_file.h) of a training process: its progress and the metrics of
// its segments.
#ifndef MILLRACE_TRAIN_RUN_COUNTERS_H_
#define MILLRACE_TRAIN_RUN_COUNTERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "metrics/counter_file.h"
#include "train/segment_numbers.h"
#include "weights/iteration_clock.h"

namespace millrace {

// Not thread-safe.
class RunCounters {
 public:
  // `cluster` may be null; it and `iterations` outlive this object. `images`: per iteration. If the
  // counter file cannot be created (no /dev/shm), logs a warning and does nothing else, because
  // training works without it.
  RunCounters(const std::string& title, const IterationClock* iterations, int64_t images,
              const Cluster* cluster);

  // Writes the current values. `snapshot_failures`: failed attempts to write a snapshot.
  void Update(float loss, uint64_t snapshot_failures);

 private:
  struct Watched {
    const NetSegment* segment;
    std::vector<NodeId> peers;  // those in the counter file
  };

  // Appends the entries of the segment and its peers to `entries`.
  void Watch(const NetSegment& segment, std::vector<CounterEntry>* entries);
  void Put(double value) { counter_file_->Set(next_++, value); }
  void Put(const std::vector<Metric>& numbers);

  const IterationClock& iterations_;
  const int64_t images_;
  std::vector<Watched> watched_;
  size_t peers_ = 0;                           // in the counter file
  std::unique_ptr<CounterFile> counter_file_;  // null if it could not be created
  size_t next_ = 0;                            // index of the entry that Put writes
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_RUN_COUNTERS_H_
