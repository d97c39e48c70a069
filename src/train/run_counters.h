// The board (metrics/counter_file.h) of a training process: how far it is, and what its
// segments do.
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

// One thread at a time.
class RunCounters {
 public:
  // `cluster` may be null; it and `iterations` outlive the board. `images` per
  // iteration. Where no board can be made (no /dev/shm), says so in the log and does
  // nothing more: it is no reason not to train.
  RunCounters(const std::string& title, const IterationClock* iterations, int64_t images,
              const Cluster* cluster);

  // Writes what is so now. `snapshot_failures`: attempts to write one that failed.
  void Update(float loss, uint64_t snapshot_failures);

 private:
  struct Watched {
    const NetSegment* segment;
    std::vector<NodeId> peers;  // that are on the board
  };

  // Of the segment and its peers, whose entries go behind `entries`.
  void Watch(const NetSegment& segment, std::vector<CounterEntry>* entries);
  void Put(double value) { counter_file_->Set(next_++, value); }
  void Put(const std::vector<Metric>& numbers);

  const IterationClock& iterations_;
  const int64_t images_;
  std::vector<Watched> watched_;
  size_t peers_ = 0;                           // on the board
  std::unique_ptr<CounterFile> counter_file_;  // null if it could not be made
  size_t next_ = 0;                            // the entry that Put writes
};

}  // namespace millrace

#endif  // MILLRACE_TRAIN_RUN_COUNTERS_H_
