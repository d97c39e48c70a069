// How much processor time a segment may use, so that the solvers beside it keep theirs.
//
// A segment that streams as fast as its link and its processor allow takes a quarter of the
// processor of a small net's solver, for weights that are hardly fresher. The controller lets the
// segment's thread use a *duty*: a share of the time of one processor. It measures what the
// solvers lose by it, and moves the duty so that they lose at most `share` of their time:
//
//   lost = min(processor time of the segment's thread, time that solvers waited for a processor)
//   taken = 1.6 * lost / (processor time of the solvers + lost)
//
// where 0.6 of it stands for the caches that the segment fills with its own.
//
// While a processor is idle solvers do not wait, `lost` is about 0, and the duty rises to 1: there
// is no limit. Where solvers wait for other threads than the segment's, its own time is the bound.
//
// The duty does not fall so low that exchanges become stale: if more than `stale_iterations`
// iterations of the cluster lie between two exchanges of a chunk, it rises again, whatever the
// solvers lose. It paces both directions: a thread that rests takes nothing in, and then transports
// give no credits to the peers that send to it.
//
// Pure logic: time and counters are given. Not thread-safe.
#ifndef MILLRACE_SEGMENT_PACE_H_
#define MILLRACE_SEGMENT_PACE_H_

#include <cstdint>

#include "base/thread_load.h"

namespace millrace {

struct PaceConfig {
  // Of the solvers' processor time, that the segment may take; above 0. 1 or more: no limit.
  double share = 0.05;
  double stale_iterations = 64;
};

// Counted since the segment began; nothing falls.
struct PaceCounters {
  int64_t segment_cpu_ns = 0;  // of the segment's thread
  ThreadTimes solvers;
  double exchanges = 0;     // of a chunk, on average over the chunks
  uint64_t iterations = 0;  // of the cluster
};

class Pace {
 public:
  // The duty is moved so often.
  static constexpr int64_t kPeriodNs = 100'000'000;
  static constexpr double kLeastDuty = 0.005;
  // The thread rests no longer than this at once, so that it is there for heartbeats and signals.
  static constexpr int64_t kMostRestNs = 20'000'000;

  explicit Pace(const PaceConfig& config);

  // Whether Update has to be called.
  bool Due(int64_t now_ns) const { return now_ns >= due_ns_; }
  void Update(int64_t now_ns, const PaceCounters& counters);
  // How long the thread has to rest from `now_ns` on, having used `cpu_ns` in all so far; 0: it may
  // go on. Neither ever falls.
  int64_t RestNs(int64_t now_ns, int64_t cpu_ns);

  // Of the time of one processor, that the thread may use; 1: no limit.
  double duty() const { return duty_; }
  // Of the solvers' time, that the segment took lately.
  double taken() const { return taken_; }

 private:
  double Wanted(int64_t elapsed_ns, const PaceCounters& since);

  const PaceConfig config_;
  int64_t due_ns_ = INT64_MIN, updated_ns_ = 0;
  PaceCounters last_;
  double duty_ = 1, taken_ = 0;
  double stale_ = 0;  // iterations between exchanges, smoothed
  // Processor time that the thread may use at once, in ns.
  double level_ns_ = 0;
  int64_t filled_ns_ = 0, used_ns_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_PACE_H_
