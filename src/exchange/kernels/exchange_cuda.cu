// CUDA kernel of the exchange: kernel_body.h with a thread block as its team.
#include "exchange/kernels/cuda_launch.h"
#include "exchange/kernels/kernel_block.h"
#include "exchange/kernels/kernel_body.h"

namespace millrace {
namespace {

struct CudaLanes {
  static constexpr uint32_t kWarp = 32, kWarps = 8, kAll = 0xffffffffu;

  __device__ __forceinline__ uint32_t index() const { return threadIdx.x; }
  __device__ __forceinline__ void Sync() const { __syncthreads(); }
  __device__ __forceinline__ uint32_t Up(uint32_t x, uint32_t n) const {
    return __shfl_up_sync(kAll, x, n);
  }
  __device__ __forceinline__ uint32_t Across(uint32_t x, uint32_t n) const {
    return __shfl_xor_sync(kAll, x, n);
  }
};

constexpr uint32_t kThreads = CudaLanes::kWarp * CudaLanes::kWarps;

template <typename Rule>
__global__ void __launch_bounds__(kThreads)
    ExchangeKernel(const KernelBatch batch, const Rule rule) {
  extern __shared__ uint4 stage[];  // uint4 for 16-byte alignment
  __shared__ WarpSums<CudaLanes> sums;
  KernelBlock<CudaLanes> block(reinterpret_cast<std::byte*>(stage), &sums, CudaLanes{});
  KernelBody<KernelBlock<CudaLanes>, Rule>(batch, rule, block).RunChain(batch.chains[blockIdx.x]);
}

}  // namespace

cudaError_t LaunchExchangeKernel(const KernelBatch& batch, const MergeRuleConfig& rule,
                                 cudaStream_t stream) {
  VisitMergeRule(rule, [&](const auto& chosen) {
    ExchangeKernel<<<batch.chain_count, kThreads, batch.stage_bytes, stream>>>(batch, chosen);
  });
  return cudaGetLastError();
}

}  // namespace millrace
