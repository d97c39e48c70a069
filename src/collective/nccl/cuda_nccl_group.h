// Groups of GPUs that NCCL connects: those of a process, and those of other processes by a
// communicator id that rank 0 sends to all.
#ifndef MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_
#define MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_

#include <span>

#include "collective/device_collective.h"
#include "collective/nccl/cuda_nccl_api.h"

namespace millrace::inline collective {

// See MakeDeviceGroupFunction. `api` outlives the group. Errors name a GPU and what failed.
DeviceGroup MakeNcclGroup(const NcclApi& api, std::span<Device* const> devices,
                          Collective* between);

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_
