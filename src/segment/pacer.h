// Limits a data rate with a token bucket. It fills at that rate, holds at most one burst, and may
// be overdrawn.
#ifndef MILLRACE_SEGMENT_PACER_H_
#define MILLRACE_SEGMENT_PACER_H_

#include <cstdint>

namespace millrace::inline segment {

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

#endif  // MILLRACE_SEGMENT_PACER_H_
