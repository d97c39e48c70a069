// Frame coalescing: how long a segment lets frames accumulate before it handles them.
//
// Each wakeup of its thread costs a solver twice: processor time, and cache contents. The received
// weights matter once per iteration. So the thread waits for a small fraction of an iteration: long
// enough to find many frames, short enough to delay a step very little.
//
// Pure logic: the time is an argument. Not thread-safe.
#ifndef MILLRACE_SEGMENT_COALESCING_H_
#define MILLRACE_SEGMENT_COALESCING_H_

#include <cstdint>

namespace millrace::inline segment {

struct CoalescingLimits {
  int64_t min_ns = 200'000;
  int64_t max_ns = 2'000'000;
};

class Coalescing {
 public:
  explicit Coalescing(const CoalescingLimits& limits);

  // Wait from `now_ns` on: a sixteenth of the smoothed interval between iterations, within the
  // limits; min_ns until that interval is known. `iterations`: those that the segment counts as
  // this node's. Neither argument may decrease.
  int64_t Ns(int64_t now_ns, uint64_t iterations);

 private:
  const CoalescingLimits limits_;
  uint64_t counted_ = 0;    // iterations at the last observed progress
  int64_t counted_at_ = 0;  // time of that observation; 0: none yet
  double interval_ns_ = 0;  // between iterations, smoothed; 0: not known
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_COALESCING_H_
