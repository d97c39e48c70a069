// How fast a device's memory is copied to and from the host.
#ifndef MILLRACE_DEVICE_COPY_RATE_H_
#define MILLRACE_DEVICE_COPY_RATE_H_

#include "base/clock.h"
#include "device/device.h"

namespace millrace {

struct CopyRate {
  double to_host = 0, from_host = 0;  // bytes a second
};

// Copies some tens of MB each way between `memory` and `staging`, which is host memory. Takes
// a moment; throws Error as these do.
CopyRate MeasureCopies(MemorySpace& memory, MemorySpace& staging, const Clock& clock);

}  // namespace millrace

#endif  // MILLRACE_DEVICE_COPY_RATE_H_
