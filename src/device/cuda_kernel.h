// Launches kernels (device/kernel.h) on NVIDIA GPUs. For .cu files only.
#ifndef MILLRACE_DEVICE_CUDA_KERNEL_H_
#define MILLRACE_DEVICE_CUDA_KERNEL_H_

#include <algorithm>
#include <cstdint>

#include "device/cuda_queue.h"
#include "device/kernel.h"
#include "device/team.h"

namespace millrace::inline device {

// The threads of a block.
struct CudaTeamLanes {
  static constexpr uint32_t kThreads = 256;
  __device__ __forceinline__ uint32_t index() const { return threadIdx.x; }
  __device__ __forceinline__ void Sync() const { __syncthreads(); }
};

template <typename Kernel>
__global__ void __launch_bounds__(256) RunElements(const Kernel kernel, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) kernel(i);
}

template <typename Kernel>
__global__ void __launch_bounds__(CudaTeamLanes::kThreads)
    RunRows(const Kernel kernel, int64_t rows) {
  __shared__ TeamArea<CudaTeamLanes::kThreads> area;
  Team<CudaTeamLanes> team(&area, CudaTeamLanes{});
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) kernel(team, row);
}

template <typename Kernel>
void LaunchCuda(Queue& queue, int64_t count, const Kernel& kernel) {
  CudaQueue& cuda = CudaQueue::Of(queue);
  cuda.Select();
  // Enough blocks to fill any GPU; each takes further elements or rows in turn.
  constexpr int64_t kMostBlocks = 1 << 14;
  constexpr int64_t kThreads = CudaTeamLanes::kThreads;
  if constexpr (ElementKernel<Kernel>) {
    const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
    RunElements<<<static_cast<unsigned>(blocks), kThreads, 0, cuda.stream()>>>(kernel, count);
  } else {
    const int64_t blocks = std::min(count, kMostBlocks);
    RunRows<<<static_cast<unsigned>(blocks), kThreads, 0, cuda.stream()>>>(kernel, count);
  }
  cuda.Check(cudaGetLastError());
}

// Define one at namespace scope in a .cu file.
template <typename... Kernels>
struct RegisterCudaKernels {
  RegisterCudaKernels() {
    (KernelLaunchers<Kernels>::Register(DeviceType::kCuda, &LaunchCuda<Kernels>), ...);
  }
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_CUDA_KERNEL_H_
