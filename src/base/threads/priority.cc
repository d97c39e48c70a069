#include "base/threads/priority.h"

#include <sys/resource.h>

namespace millrace::inline base {

bool RunBeforeOthers() {
  constexpr int kAhead = 10;
  // Affects only the calling thread: on Linux every thread has its own nice value.
  return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - kAhead) == 0;
}

}  // namespace millrace::inline base
