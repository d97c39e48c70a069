// Reads POSIX clocks, such as the CPU-time clocks of threads and processes.
#ifndef MILLRACE_BASE_POSIX_CLOCK_H_
#define MILLRACE_BASE_POSIX_CLOCK_H_

#include <cstdint>
#include <ctime>

namespace millrace::inline base {

// The current value of `clock` in ns; 0 if it does not exist. Thread-safe.
inline int64_t PosixClockNs(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_POSIX_CLOCK_H_
