// Waits that are likely to be short.
#ifndef MILLRACE_DEVICE_SPIN_UNTIL_H_
#define MILLRACE_DEVICE_SPIN_UNTIL_H_

#include <cstdint>

#include "millrace/clock.h"

namespace millrace::inline device {

// Calls is_done() until it returns true, which is the result, or, after at least one call, until
// `limit_ns` have passed: then the result is false. The thread keeps its processor.
template <typename IsDone>
bool SpinUntil(IsDone is_done, const Clock& clock, int64_t limit_ns) {
  const int64_t end = clock.NowNs() + limit_ns;
  while (!is_done()) {
    if (clock.NowNs() >= end) return false;
  }
  return true;
}

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_SPIN_UNTIL_H_
