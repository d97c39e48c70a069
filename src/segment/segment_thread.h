// The thread of a segment. It leaves the cores to the solvers: between passes it
// sleeps until there is something to do, and wakes for several frames at once.
#ifndef MILLRACE_SEGMENT_SEGMENT_THREAD_H_
#define MILLRACE_SEGMENT_SEGMENT_THREAD_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "segment/coalescing.h"
#include "segment/net_segment.h"
#include "segment/pace.h"

namespace millrace {

struct SegmentThreadOptions {
  // Never sleep: for cores that are set aside for the segment.
  bool busy_poll = false;
  // How long frames are let come together once there is nothing left to do.
  CoalescingLimits coalescing = {};
  // How often a sleeping segment looks whether the solvers have made progress.
  int64_t look_ns = 2'000'000;
  PaceConfig pace = {};
  // The solvers beside it, which it leaves their processors to; outlives the thread. Null: it
  // works as fast as it can, as it does with `busy_poll`.
  const ThreadLoad* solvers = nullptr;
};

class SegmentThread {
 public:
  // Starts at once. All references outlive the thread; `sink` gets what goes wrong.
  // `before_pass` is called on the thread before each pass.
  SegmentThread(
      NetSegment* segment, const SegmentThreadOptions& options, const Clock* clock, ErrorSink* sink,
      std::function<void()> before_pass = [] {});
  // Ends the thread after its present pass. Frames that are under way may be lost.
  ~SegmentThread();

  // Processor time that the thread has used so far, in ns. Thread-safe.
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

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_SEGMENT_THREAD_H_
