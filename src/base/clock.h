// Clock interface. Code that measures time or waits takes a Clock, so that tests control the time.
// Thread-safe.
#ifndef MILLRACE_BASE_CLOCK_H_
#define MILLRACE_BASE_CLOCK_H_

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

}  // namespace millrace

#endif  // MILLRACE_BASE_CLOCK_H_
