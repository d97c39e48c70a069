// The thread of a segment. It sleeps between passes until there is work and handles several frames
// per wakeup, which leaves the processors to the solvers.
#ifndef MILLRACE_SEGMENT_SEGMENT_THREAD_H_
#define MILLRACE_SEGMENT_SEGMENT_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads/thread.h"
#include "segment/net_segment.h"
#include "segment/pace.h"

namespace millrace::inline segment {

// Frame coalescing: how long a segment lets frames accumulate before it handles them.
//
// Each wakeup of its thread costs a solver twice: processor time, and cache contents. The received
// weights matter once per iteration. So the thread waits for a small fraction of an iteration: long
// enough to find many frames, short enough to delay a step very little.
//
// Pure logic: the time is an argument. Not thread-safe.
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

struct SegmentThreadOptions {
  // Polls without sleeping, for processors reserved for the segment.
  bool busy_poll = false;
  // Bounds of the pause in which frames accumulate between two passes.
  CoalescingLimits coalescing = {};
  // Longest wait of a sleeping segment, ns: the interval at which it polls the solvers' progress.
  int64_t look_ns = 2'000'000;
  // The same while no other node is a member: the interval at which it polls requests to end.
  int64_t look_alone_ns = 20'000'000;
  PaceConfig pace = {};
  // Processor times of the solvers beside it, from which the pace is controlled; outlives the
  // thread. Null: no limit, as with `busy_poll`.
  const ThreadLoad* solvers = nullptr;
};

class SegmentThread {
 public:
  // Starts the thread. All references outlive it. `sink` receives its errors. The thread calls
  // `before_pass` before each pass.
  SegmentThread(
      NetSegment* segment, const SegmentThreadOptions& options, const Clock* clock, ErrorSink* sink,
      std::function<void()> before_pass = [] {});
  // Ends the thread after the current pass. Frames in flight may be lost.
  ~SegmentThread();

  // Processor time of the thread so far, ns. Thread-safe.
  int64_t cpu_ns() const { return thread_.cpu_ns(); }

 private:
  void Run();
  void Measure(int64_t now_ns, int64_t cpu_ns, Pace* pace);

  NetSegment& segment_;
  const SegmentThreadOptions options_;
  const Clock& clock_;
  const std::function<void()> before_pass_;
  std::atomic<bool> stop_{false};
  Thread thread_;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_SEGMENT_THREAD_H_
