// The clocks that POSIX numbers: processor time of a thread, of the process, and others.
#ifndef MILLRACE_BASE_POSIX_CLOCK_H_
#define MILLRACE_BASE_POSIX_CLOCK_H_

#include <cstdint>
#include <ctime>

namespace millrace {

// What it shows, in ns; 0 if there is no such clock. Thread-safe.
inline int64_t PosixClockNs(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace millrace

#endif  // MILLRACE_BASE_POSIX_CLOCK_H_
