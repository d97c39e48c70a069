// Clock interface. Code that measures time or waits takes a Clock, so that tests control the time.
#ifndef MILLRACE_CLOCK_H_
#define MILLRACE_CLOCK_H_

#include <cstdint>

#include "millrace/export.h"

namespace millrace {

// Thread-safe.
class MILLRACE_API Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary origin. Monotonic: never decreases.
  virtual int64_t NowNs() const = 0;

  double NowSeconds() const { return static_cast<double>(NowNs()) * 1e-9; }
};

}  // namespace millrace

#endif  // MILLRACE_CLOCK_H_
