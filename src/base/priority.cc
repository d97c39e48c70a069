#include "base/priority.h"

#include <sys/resource.h>

namespace millrace {

bool RunBeforeOthers() {
  constexpr int kAhead = 10;
  // Of this thread alone: on Linux they have a nice value each.
  return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - kAhead) == 0;
}

}  // namespace millrace
