// Groups of GPUs that NCCL connects: those of a process, and those of other processes by a
// communicator id that rank 0 sends to all.
#ifndef MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_
#define MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_

#include <nccl.h>

#include <span>

#include "collective/device_collective.h"

namespace millrace::inline collective {

// NCCL, loaded when GPUs first sum together: programs run where it is not installed.
// device/cuda_library_files.h says where it is looked for.

#define MILLRACE_NCCL_FUNCTIONS(F) \
  F(ncclGetVersion)                \
  F(ncclGetErrorString)            \
  F(ncclGetLastError)              \
  F(ncclGetUniqueId)               \
  F(ncclCommInitRankConfig)        \
  F(ncclCommGetAsyncError)         \
  F(ncclCommAbort)                 \
  F(ncclAllReduce)                 \
  F(ncclGroupStart)                \
  F(ncclGroupEnd)

#define MILLRACE_FUNCTION(name) decltype(&::name) name;

// Functions of the library. Tests have a table with functions of their own.
struct NcclApi {
  MILLRACE_NCCL_FUNCTIONS(MILLRACE_FUNCTION)
};

#undef MILLRACE_FUNCTION

// Thread-safe. The first call loads the library and logs its file and version. Throws Error with
// one line if it is not installed, lacks a function or is older than 2.14, which first had
// communicators whose calls do not wait.
const NcclApi& Nccl();

// See MakeDeviceGroupFunction. `api` outlives the group. Errors name a GPU and what failed.
DeviceGroup MakeNcclGroup(const NcclApi& api, std::span<Device* const> devices,
                          Collective* between);

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_NCCL_CUDA_NCCL_GROUP_H_
