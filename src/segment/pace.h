// Controls how much processor time a segment may use, to leave processors to the solvers beside it.
//
// A segment that streams as fast as its link and processor allow takes a quarter of the processor
// time of a small net's solver, for weights that are hardly fresher. The controller therefore
// limits the segment's thread to a *duty*: a share of one processor's time. It measures the
// solvers' loss and adjusts the duty so that they lose at most `share` of their time:
//
//   lost = min(processor time of the segment's thread, time that solvers waited for a processor)
//   taken = 1.6 * lost / (processor time of the solvers + lost)
//
// The additional 0.6 accounts for the solvers' cache contents that the segment evicts.
//
// While a processor is idle, solvers do not wait, `lost` is about 0, and the duty rises to 1: no
// limit. Where solvers wait for threads other than the segment's, the segment's own time bounds
// `lost`.
//
// The duty does not fall so low that exchanges become stale: if more than `stale_iterations`
// cluster iterations lie between two exchanges of a chunk, or more than `stale_own_iterations`
// times the number of members, at least four, the duty rises again, whatever the solvers lose. It
// limits both directions: a resting thread receives nothing, and transports then give no credits to
// the sending peers.
//
// Where members average (`stale_own_iterations` is not 0) and the solvers lose more than `share`
// for exchanges that are fresh enough, the segment spaces the positions of each chunk: more of them
// would be fresher than averages need, and cost the solvers time.
//
// Pure logic: time and counters are arguments. Not thread-safe.
#ifndef MILLRACE_SEGMENT_PACE_H_
#define MILLRACE_SEGMENT_PACE_H_

#include <cstdint>

#include "base/threads/thread_load.h"

namespace millrace::inline segment {

struct PaceConfig {
  // Share of the solvers' processor time that the segment may take; above 0. 1 or more: no limit.
  double share = 0.05;
  double stale_iterations = 64;
  double stale_own_iterations = 0;  // of one member; 0: no limit
};

// Counters since the segment's start. They never decrease, except `iterations` at a change of view.
struct PaceCounters {
  int64_t segment_cpu_ns = 0;  // of the segment's thread
  ThreadTimes solvers;
  int solver_threads = 0;   // now
  double exchanges = 0;     // sweeps over the chunks
  uint64_t iterations = 0;  // of the cluster
  uint32_t members = 1;     // of the segment now; not a counter
};

class Pace {
 public:
  // Interval between updates of the duty.
  static constexpr int64_t kPeriodNs = 100'000'000;
  static constexpr double kMinDuty = 0.005;
  // Longest rest at once, so that the thread still serves heartbeats and signals.
  static constexpr int64_t kMaxRestNs = 20'000'000;
  // Periods with solvers and without any processor time of theirs after which the system counts
  // none.
  static constexpr int kUncountedPeriods = 10;

  explicit Pace(const PaceConfig& config);

  // Whether Update is due.
  bool Due(int64_t now_ns) const { return now_ns >= due_ns_; }
  void Update(int64_t now_ns, const PaceCounters& counters);
  // How long the thread must rest from `now_ns` on; 0: it may continue. `cpu_ns`: its processor
  // time so far. Neither argument may decrease.
  int64_t RestNs(int64_t now_ns, int64_t cpu_ns);

  // True once: the system does not count the times of the solvers (base/threads/thread_load.h), so
  // there is no limit.
  bool TakeUncounted();

  // Share of one processor's time that the thread may use; 1: no limit.
  double duty() const { return duty_; }
  // Share of the solvers' time that the segment took recently, smoothed.
  double taken() const { return taken_; }
  // Iterations of the cluster between two positions of a chunk, at least (Exchange::SetThrottled);
  // 0: any number.
  int64_t spacing() const { return spacing_; }

 private:
  double Wanted(int64_t elapsed_ns, const PaceCounters& since);

  const PaceConfig config_;
  int64_t due_ns_ = INT64_MIN, updated_ns_ = 0;
  PaceCounters last_;
  double duty_ = 1, taken_ = 0;
  double stale_ = 0;  // iterations between exchanges, smoothed
  int64_t spacing_ = 0;
  int uncounted_ = 0;  // periods; above kUncountedPeriods: TakeUncounted has returned true
  // Token bucket: processor time that the thread may use at once, ns; negative if overdrawn.
  double level_ns_ = 0;
  int64_t filled_ns_ = 0, used_ns_ = 0;
};

// Limits a data rate with a token bucket. It fills at that rate, holds at most one burst, and may
// be overdrawn.
//
// Not thread-safe.
class Pacer {
 public:
  // 0 bytes per second: no limit. Throws Error if the rate is negative or not finite.
  Pacer(double bytes_per_second, double burst_bytes);

  bool limited() const { return rate_ > 0; }
  // Bytes that may be taken at `now_ns`, never negative. `now_ns` must not decrease.
  double Available(int64_t now_ns);
  // Takes `bytes`, even if fewer are available.
  void Spend(double bytes) { level_ -= bytes; }
  // When `bytes` (at most one burst) are available: the time of the last Available call if they are
  // now.
  int64_t ReadyNs(double bytes) const;

 private:
  const double rate_, burst_;
  double level_;
  int64_t filled_at_ = 0;
  bool started_ = false;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_PACE_H_
