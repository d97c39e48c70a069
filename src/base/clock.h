// Clock interface. Code that measures time or waits takes a Clock, so that tests control the time.
// Thread-safe.
#ifndef MILLRACE_BASE_CLOCK_H_
#define MILLRACE_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace millrace {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary origin. Monotonic: never decreases.
  virtual int64_t NowNs() const = 0;

  double NowSeconds() const { return static_cast<double>(NowNs()) * 1e-9; }
};

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
