// The time of the calendar. Thread-safe.
#ifndef MILLRACE_BASE_TEXT_UNIX_TIME_H_
#define MILLRACE_BASE_TEXT_UNIX_TIME_H_

#include <chrono>

namespace millrace::inline base {

// Seconds since 1970. Not monotonic: somebody may set the machine's clock.
inline double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_TEXT_UNIX_TIME_H_
