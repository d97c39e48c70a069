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
#include "segment/coalescing.h"
#include "segment/net_segment.h"
#include "segment/pace.h"

namespace millrace::inline segment {

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
