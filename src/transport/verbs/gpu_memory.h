// A GPU's memory, shown to an RDMA device.
#ifndef MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_
#define MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "device/device.h"
#include "transport/verbs/device.h"

namespace millrace {

// Lets the device read `memory`, which lies in `owner.memory`, and says in the log by which way
// it does. Null: it cannot; payloads have to be copied to host memory. Throws Error where they
// could not be copied either.
MemoryRegion RegisterGpuMemory(const VerbsDevice& device, const DeviceRegistry::Owner& owner,
                               std::span<const std::byte> memory, const Clock& clock);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_
