// How long a segment lets frames come together before it looks at them.
//
// Each time that its thread wakes it takes the processor from a solver, twice over: by what
// it costs, and by what it leaves of the solver's caches. What it brings is of use once an
// iteration. So it waits for a small part of one: late enough to find many frames, early
// enough that a step arrives hardly later than it would.
//
// Pure logic: the time is given. Not thread-safe.
#ifndef MILLRACE_SEGMENT_COALESCING_H_
#define MILLRACE_SEGMENT_COALESCING_H_

#include <cstdint>

namespace millrace {

struct CoalescingLimits {
  int64_t least_ns = 200'000;
  int64_t most_ns = 2'000'000;
};

class Coalescing {
 public:
  explicit Coalescing(const CoalescingLimits& limits);

  // The wait from `now_ns` on: a sixteenth of the time between iterations, within the limits;
  // the least until there have been some. `iterations`: that the segment counts as this node's.
  // Neither ever falls.
  int64_t Ns(int64_t now_ns, uint64_t iterations);

 private:
  const CoalescingLimits limits_;
  uint64_t counted_ = 0;    // iterations when one was last seen to be done
  int64_t counted_at_ = 0;  // and when that was; 0: not yet
  double interval_ns_ = 0;  // between iterations, smoothed; 0: not known
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_COALESCING_H_
