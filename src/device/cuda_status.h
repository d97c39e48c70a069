// Status codes of the CUDA runtime as errors.
#ifndef MILLRACE_DEVICE_CUDA_STATUS_H_
#define MILLRACE_DEVICE_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"
#include "millrace/memory_space.h"
#include "millrace/queue.h"

namespace millrace::inline device {

// The runtime's text for an error, or a clearer one where that text hides the cause.
std::string CudaErrorText(cudaError_t status);

// Why there is no GPU, from the result of cudaGetDeviceCount: no driver, one that is too old, or
// another reason.
std::string WhyNoCuda(cudaError_t status);

// "12.4" for 12040, CUDA's way to write versions in one number.
std::string CudaVersionText(int number);

// Throws OutOfMemory or DeviceError unless `status` is cudaSuccess. `device` names the failing
// device: "cuda device 0".
template <typename... Parts>
void CheckCuda(cudaError_t status, const std::string& device, const Parts&... doing) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next call would report again
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory(device, ": ", doing..., ": ", CudaErrorText(status));
  }
  throw DeviceError(device, ": ", doing..., ": ", CudaErrorText(status));
}

// For destructors: logs an error instead of throwing, each error of a device once: after a failure
// of the device every call reports it. Ignores errors after the runtime has shut down at program
// exit. Thread-safe.
void CheckCudaFree(cudaError_t status, const std::string& device, const char* doing);

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_STATUS_H_
