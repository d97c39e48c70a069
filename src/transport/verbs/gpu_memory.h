// Registration of GPU memory with an RDMA device.
#ifndef MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_
#define MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_

#include <cstddef>
#include <span>

#include "base/clock.h"
#include "millrace/device.h"
#include "transport/verbs/device.h"

namespace millrace::inline transport {

// Registers `memory`, which lies in the memory of `owner`, for reading by the device, and logs the
// access mode. Returns null if the device cannot read it: payloads must be copied to host memory.
// Throws Error if they cannot be copied either.
MemoryRegion RegisterGpuMemory(const VerbsDevice& device, Device& owner,
                               std::span<const std::byte> memory, const Clock& clock);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_GPU_MEMORY_H_
