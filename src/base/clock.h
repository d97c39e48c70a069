// Clocks (millrace/clock.h): the machine's, and one for tests. Thread-safe.
#ifndef MILLRACE_BASE_CLOCK_H_
#define MILLRACE_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "millrace/clock.h"

namespace millrace {

class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// Advances only when AdvanceNs() or AdvanceSeconds() is called.
class ManualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(); }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }
  void AdvanceSeconds(double seconds) { AdvanceNs(static_cast<int64_t>(seconds * 1e9)); }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace millrace

#endif  // MILLRACE_BASE_CLOCK_H_
