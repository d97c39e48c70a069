#include "segment/segment_thread.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/threads/thread.h"

namespace millrace::inline segment {
namespace {

// Solvers keep all processors busy. A segment that queues behind them sends and receives late, and
// momentum turns late steps into divergence.
void GoFirst(const NetSegment& segment) {
  if (RunBeforeOthers()) return;
  LOG(INFO) << "Segment " << segment.name() << " may not run before the solvers (that takes "
            << "CAP_SYS_NICE, or a nice limit of -10): where all processors are busy, nodes see "
            << "each other's steps late";
}

}  // namespace

SegmentThread::SegmentThread(NetSegment* segment, const SegmentThreadOptions& options,
                             const Clock* clock, ErrorSink* sink, std::function<void()> before_pass)
    : segment_(*segment),
      options_(options),
      clock_(*clock),
      before_pass_(std::move(before_pass)),
      thread_(
          "segment-" + segment->name(),
          [this] {
            GoFirst(segment_);
            Run();
          },
          sink) {}

SegmentThread::~SegmentThread() {
  stop_ = true;
  segment_.transport().Wake();
  thread_.Join();
}

void SegmentThread::Run() {
  Coalescing coalescing(options_.coalescing);
  Pace pace(options_.pace);
  const bool paced = options_.solvers != nullptr && !options_.busy_poll;
  while (!stop_.load(std::memory_order_relaxed)) {
    before_pass_();
    const int64_t now = clock_.NowNs();
    const NetSegment::Next next = segment_.Pass(now);
    int64_t rest = 0;
    if (paced) {
      const int64_t cpu_ns = PosixClockNs(CLOCK_THREAD_CPUTIME_ID);
      if (pace.Due(now)) Measure(now, cpu_ns, &pace);
      rest = pace.RestNs(now, cpu_ns);
    }
    if (rest == 0 && (next.at_once || options_.busy_poll)) continue;
    const int64_t coalesce_ns = coalescing.Ns(now, segment_.state().progress());
    const int64_t pause_ns = next.alone ? rest : std::max(coalesce_ns, rest);
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
    if (next.at_once) continue;
    const int64_t look_ns = next.alone ? options_.look_alone_ns : options_.look_ns;
    segment_.transport().Wait(std::min(next.deadline_ns, now + look_ns), next.what);
  }
}

void SegmentThread::Measure(int64_t now_ns, int64_t cpu_ns, Pace* pace) {
  pace->Update(now_ns, {.segment_cpu_ns = cpu_ns,
                        .solvers = options_.solvers->Read(),
                        .solver_threads = options_.solvers->threads(),
                        .exchanges = segment_.sweeps(),
                        .iterations = segment_.state().global_iterations(),
                        .members = segment_.state().members()});
  segment_.SetPace(pace->duty(), pace->taken(), pace->spacing());
  if (!pace->TakeUncounted()) return;
  LOG(INFO) << "Segment " << segment_.name() << ": this system does not count the processor times "
            << "of the solvers (/proc/thread-self/schedstat), so solver_share has no effect: the "
            << "segment takes all the time that it can use, as with pace: \"full\"";
}

namespace {

constexpr double kShare = 1.0 / 16;  // of the interval between iterations
// Weight of a new interval in the smoothed one.
constexpr double kIntervalSmoothing = 1.0 / 4;

}  // namespace

Coalescing::Coalescing(const CoalescingLimits& limits) : limits_(limits) {
  CHECK(0 <= limits.min_ns && limits.min_ns <= limits.max_ns);
}

int64_t Coalescing::Ns(int64_t now_ns, uint64_t iterations) {
  if (counted_at_ == 0) {
    counted_ = iterations;
    counted_at_ = now_ns;
  }
  if (iterations > counted_) {
    const double interval =
        static_cast<double>(now_ns - counted_at_) / static_cast<double>(iterations - counted_);
    interval_ns_ =
        interval_ns_ > 0 ? interval_ns_ + kIntervalSmoothing * (interval - interval_ns_) : interval;
    counted_ = iterations;
    counted_at_ = now_ns;
  }
  const auto most = static_cast<double>(limits_.max_ns);
  return std::max(static_cast<int64_t>(std::min(interval_ns_ * kShare, most)), limits_.min_ns);
}

}  // namespace millrace::inline segment
