// Measures the copy bandwidth between a device's memory and the host.
#ifndef MILLRACE_DEVICE_COPY_RATE_H_
#define MILLRACE_DEVICE_COPY_RATE_H_

#include "base/clock.h"
#include "millrace/device.h"

namespace millrace::inline device {

struct CopyRate {
  double to_host = 0, from_host = 0;  // bytes per second
};

// Copies 32 MiB in each direction between `memory` and `staging`, which must be host memory. Throws
// Error as the memory spaces do.
CopyRate MeasureCopies(MemorySpace& memory, MemorySpace& staging, const Clock& clock);

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_COPY_RATE_H_
