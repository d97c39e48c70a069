// Identity of a process: its pid together with its start time, because the kernel reuses pids.
#ifndef MILLRACE_BASE_PROCESS_IDENTITY_H_
#define MILLRACE_BASE_PROCESS_IDENTITY_H_

#include <cstdint>

namespace millrace::inline base {

struct ProcessIdentity {
  int32_t pid = 0;
  uint64_t start_time = 0;  // clock ticks after boot: field 22 of /proc/PID/stat

  bool operator==(const ProcessIdentity&) const = default;
};

// The calling process. Throws Error when /proc is not mounted.
ProcessIdentity ThisProcess();

// True if that process is still running. A zombie is not running, although its pid is still taken.
// Thread-safe; sends no signal.
bool IsAlive(const ProcessIdentity& process);

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_PROCESS_IDENTITY_H_
