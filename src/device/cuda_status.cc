#include "device/cuda_status.h"

#include <glog/logging.h>

#include <mutex>
#include <set>
#include <utility>

namespace millrace::inline device {

std::string CudaErrorText(cudaError_t status) {
  const std::string text = cudaGetErrorString(status);
  switch (status) {
    case cudaErrorDevicesUnavailable:
      return StrCat(text,
                    ": another process uses it in exclusive mode, or MPS admits no further one "
                    "(nvidia-smi -q -d COMPUTE shows the mode)");
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
    case cudaErrorMpsClientTerminated:
      return StrCat("the MPS server of this machine refuses this process: ", text);
    default:
      return text;
  }
}

std::string CudaVersionText(int number) { return StrCat(number / 1000, ".", number % 1000 / 10); }

std::string WhyNoCuda(cudaError_t status) {
  int driver = 0, runtime = 0;
  const bool known = cudaDriverGetVersion(&driver) == cudaSuccess &&
                     cudaRuntimeGetVersion(&runtime) == cudaSuccess;
  if (!known) cudaGetLastError();
  if (known && driver == 0) return "no NVIDIA driver is installed";
  if (known && status == cudaErrorInsufficientDriver && driver < runtime) {
    return StrCat("driver for CUDA ", CudaVersionText(driver), ", this build needs ",
                  CudaVersionText(runtime));
  }
  return CudaErrorText(status);
}

void CheckCudaFree(cudaError_t status, const std::string& device, const char* doing) {
  if (status == cudaSuccess || status == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  static std::mutex mutex;
  static auto& logged = *new std::set<std::pair<std::string, cudaError_t>>;  // until the very end
  std::lock_guard lock(mutex);
  if (!logged.emplace(device, status).second) return;
  LOG(ERROR) << device << ": " << doing << ": " << CudaErrorText(status);
}

}  // namespace millrace::inline device
