// Clocks (millrace/clock.h): the machine's. Thread-safe.
#ifndef MILLRACE_BASE_CLOCK_H_
#define MILLRACE_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

#include "millrace/clock.h"

namespace millrace::inline base {

class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_CLOCK_H_
