// Keeps what is sent to a rate: a bucket that fills at that rate, holds no more than
// a burst, and may be overdrawn by what was taken at once.
#ifndef MILLRACE_SEGMENT_PACER_H_
#define MILLRACE_SEGMENT_PACER_H_

#include <cstdint>

namespace millrace {

// Not thread-safe.
class Pacer {
 public:
  // 0 bytes per second: no limit.
  Pacer(double bytes_per_second, double burst_bytes);

  bool limited() const { return rate_ > 0; }
  // Bytes that may be taken at `now`, never negative. `now` must not go back.
  double Available(int64_t now_ns);
  // Takes them, and more than there are if it must be.
  void Spend(double bytes) { level_ -= bytes; }
  // When `bytes` (at most a burst) will be there; `now` or earlier if they are.
  int64_t ReadyNs(double bytes) const;

 private:
  const double rate_, burst_;
  double level_;
  int64_t filled_at_ = 0;
  bool started_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_PACER_H_
