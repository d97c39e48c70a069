// Launches kernels (device/kernel.h) on NVIDIA GPUs. For .cu files only.
#ifndef MILLRACE_DEVICE_CUDA_KERNEL_H_
#define MILLRACE_DEVICE_CUDA_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

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

// `packed`: see ChooseForm. Indices are added up unsigned: the last steps of a thread end beyond
// the count.
template <typename Kernel, typename Index, bool packed>
__global__ void __launch_bounds__(CudaTeamLanes::kThreads)
    RunElements(const Kernel kernel, Index count) {
  using Unsigned = std::make_unsigned_t<Index>;
  const Unsigned step = Unsigned{gridDim.x} * blockDim.x;
  Unsigned i = Unsigned{blockIdx.x} * blockDim.x + threadIdx.x;
  if constexpr (packed) {
    const Unsigned packs = static_cast<Unsigned>(count) / kPack, rest = kPack * packs + i;
    for (; i < packs; i += step) RunPack(kernel, static_cast<Index>(kPack * i));
    if (rest < static_cast<Unsigned>(count)) kernel(static_cast<Index>(rest));
  } else {
    for (; i < static_cast<Unsigned>(count); i += step) kernel(static_cast<Index>(i));
  }
}

template <typename Kernel, typename Index>
__global__ void __launch_bounds__(CudaTeamLanes::kThreads)
    RunRows(const Kernel kernel, Index rows) {
  __shared__ TeamArea<CudaTeamLanes::kThreads> area;
  Team<CudaTeamLanes> team(&area, CudaTeamLanes{});
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) kernel(team, row);
}

template <typename Kernel>
void LaunchCuda(Queue& queue, int64_t count, const Kernel& kernel) {
  CudaQueue& cuda = CudaQueue::Of(queue);
  cuda.Select();
  // Enough blocks to fill any GPU; each takes further elements or rows in turn.
  constexpr int64_t kMaxBlocks = 1 << 14;
  constexpr int64_t kThreads = CudaTeamLanes::kThreads;
  ChooseForm(count, kernel, [&](auto index, auto packed) {
    using Index = decltype(index);
    if constexpr (ElementKernel<Kernel>) {
      const int64_t steps = packed ? (count + kPack - 1) / kPack : count;
      const int64_t blocks = std::min((steps + kThreads - 1) / kThreads, kMaxBlocks);
      RunElements<Kernel, Index, packed>
          <<<static_cast<unsigned>(blocks), kThreads, 0, cuda.stream()>>>(
              kernel, static_cast<Index>(count));
    } else {
      const int64_t blocks = std::min(count, kMaxBlocks);
      RunRows<Kernel, Index><<<static_cast<unsigned>(blocks), kThreads, 0, cuda.stream()>>>(
          kernel, static_cast<Index>(count));
    }
  });
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
