// Status codes of the CUDA runtime as errors.
#ifndef MILLRACE_DEVICE_CUDA_STATUS_H_
#define MILLRACE_DEVICE_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"
#include "millrace/memory_space.h"
#include "millrace/queue.h"

namespace millrace::inline device {

// Throws OutOfMemory or DeviceError unless `status` is cudaSuccess. `device` names the failing
// device: "cuda device 0".
template <typename... Parts>
void CheckCuda(cudaError_t status, const std::string& device, const Parts&... doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next call would report again
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory(device, ": ", doing..., ": ", cudaGetErrorString(status));
  }
  throw DeviceError(device, ": ", doing..., ": ", cudaGetErrorString(status));
}

// For destructors: logs an error instead of throwing. Ignores errors after the runtime has shut
// down at program exit.
void CheckCudaFree(cudaError_t status, const std::string& device, const char* doing);

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_STATUS_H_
