// The clocks of the machine. Thread-safe.
#ifndef MILLRACE_BASE_CLOCK_H_
#define MILLRACE_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <ctime>

#include "millrace/clock.h"

namespace millrace::inline base {

// A clock (millrace/clock.h) that is never set.
class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// The current value in ns of a POSIX clock, such as the CPU-time clock of a thread; 0 if it does
// not exist.
inline int64_t PosixClockNs(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// Seconds since 1970, by the calendar. Not monotonic: somebody may set the machine's clock.
inline double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_CLOCK_H_
