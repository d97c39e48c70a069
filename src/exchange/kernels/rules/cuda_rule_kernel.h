// CUDA kernel of the exchange for one merge rule: kernel_body.h with a thread block as its team.
// For files compiled by nvcc with -fmad=false, so that all nodes compute the same bits.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_CUDA_RULE_KERNEL_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_CUDA_RULE_KERNEL_H_

#include <string>
#include <type_traits>

#include "exchange/kernels/cuda_launch.h"
#include "exchange/kernels/kernel_block.h"
#include "exchange/kernels/kernel_body.h"

namespace millrace::inline exchange {

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

inline constexpr uint32_t kCudaThreads = CudaLanes::kWarp * CudaLanes::kWarps;

template <typename Rule>
__global__ void __launch_bounds__(kCudaThreads)
    ExchangeKernel(const KernelBatch batch, const Rule rule) {
  extern __shared__ uint4 stage[];  // uint4 for 16-byte alignment
  __shared__ WarpSums<CudaLanes> sums;
  KernelBlock<CudaLanes> block(reinterpret_cast<std::byte*>(stage), &sums, CudaLanes{});
  KernelBody<KernelBlock<CudaLanes>, Rule>(batch, rule, block).RunBlock(blockIdx.x, gridDim.x);
}

template <typename Rule>
cudaError_t LaunchExchangeKernel(const KernelBatch& batch, const Rule& rule, cudaStream_t stream) {
  ExchangeKernel<<<batch.blocks(), kCudaThreads, batch.stage_bytes, stream>>>(batch, rule);
  return cudaGetLastError();
}

// Define one at namespace scope. `make(parameters)` returns the rule's struct.
template <typename Make>
struct RegisterCudaRule {
  RegisterCudaRule(const std::string& name, Make make) {
    CudaRuleRegistry::Get().Register(name, [make](const RuleParameters& parameters) {
      const auto rule = make(parameters);
      return ExchangeLaunch([rule](const KernelBatch& batch, cudaStream_t stream) {
        return LaunchExchangeKernel(batch, rule, stream);
      });
    });
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_CUDA_RULE_KERNEL_H_
