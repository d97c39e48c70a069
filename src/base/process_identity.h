// Which process is meant: a pid alone is used again by the kernel, so a process
// is named by its pid together with the time at which it started.
#ifndef MILLRACE_BASE_PROCESS_IDENTITY_H_
#define MILLRACE_BASE_PROCESS_IDENTITY_H_

#include <cstdint>

namespace millrace {

struct ProcessIdentity {
  int32_t pid = 0;
  uint64_t start_time = 0;  // clock ticks after boot: field 22 of /proc/PID/stat

  bool operator==(const ProcessIdentity&) const = default;
};

// The calling process. Throws Error when /proc is not mounted.
ProcessIdentity ThisProcess();

// Whether that very process is still running. A zombie is not, although its pid
// is still taken. Thread-safe; sends no signal.
bool IsAlive(const ProcessIdentity& process);

}  // namespace millrace

#endif  // MILLRACE_BASE_PROCESS_IDENTITY_H_
