// The kernel body (kernel_body.h) with a block of threads as its team.
#include "exchange/cuda_launch.h"
#include "exchange/kernel_body.h"

namespace millrace {
namespace {

constexpr uint32_t kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;
constexpr uint32_t kAllLanes = 0xffffffffu;

// What the warps of a block tell each other.
struct Exchanged {
  uint32_t of_warp[kWarps];
};

// Begins and ends every step with all threads together: what lane i wrote in one step, lane
// j may read in the next.
class Block {
 public:
  __device__ Block(std::byte* stage, Exchanged* exchanged) : stage_(stage), x_(*exchanged) {}

  template <typename Step>
  __device__ __forceinline__ void ForEach(int64_t n, Step step) {
    for (int64_t i = threadIdx.x; i < n; i += kThreads) step(i);
    __syncthreads();
  }

  template <typename Value>
  __device__ __forceinline__ int32_t Max(int64_t n, Value value) {
    int32_t own = 0;
    for (int64_t i = threadIdx.x; i < n; i += kThreads) own = max(own, value(i));
    return Combine(own, [](int32_t a, int32_t b) { return max(a, b); });
  }

  template <typename Value>
  __device__ __forceinline__ uint32_t Or(int64_t n, Value value) {
    int32_t own = 0;
    for (int64_t i = threadIdx.x; i < n; i += kThreads) own |= static_cast<int32_t>(value(i));
    return static_cast<uint32_t>(Combine(own, [](int32_t a, int32_t b) { return a | b; }));
  }

  // A tile of as many values as there are threads at a time.
  template <typename Value>
  __device__ __forceinline__ uint32_t Scan(int64_t n, Value value, uint32_t* to) {
    uint32_t before = 0;
    for (int64_t tile = 0; tile < n; tile += kThreads) {
      const int64_t i = tile + threadIdx.x;
      const uint32_t own = i < n ? value(i) : 0;
      const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
      uint32_t sum = own;  // of this warp's lanes up to this one
      for (uint32_t step = 1; step < kWarp; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
        if (lane >= step) sum += other;
      }
      if (lane == kWarp - 1) x_.of_warp[warp] = sum;
      __syncthreads();
      uint32_t warps_before = 0, all = 0;
      for (uint32_t w = 0; w < kWarps; ++w) {
        if (w < warp) warps_before += x_.of_warp[w];
        all += x_.of_warp[w];
      }
      if (i < n) to[i] = before + warps_before + sum - own;
      before += all;
      __syncthreads();
    }
    return before;
  }

  template <typename Step>
  __device__ __forceinline__ void Once(Step step) {
    if (threadIdx.x == 0) step();
    __syncthreads();
  }

  __device__ __forceinline__ std::byte* stage() const { return stage_; }

 private:
  // What the threads have found, combined; the same for all of them.
  template <typename Both>
  __device__ __forceinline__ int32_t Combine(int32_t own, Both both) {
    for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
      own = both(own, __shfl_xor_sync(kAllLanes, own, step));
    }
    if (threadIdx.x % kWarp == 0) x_.of_warp[threadIdx.x / kWarp] = static_cast<uint32_t>(own);
    __syncthreads();
    for (uint32_t w = 0; w < kWarps; ++w) own = both(own, static_cast<int32_t>(x_.of_warp[w]));
    __syncthreads();
    return own;
  }

  std::byte* const stage_;
  Exchanged& x_;
};

template <typename Rule>
__global__ void __launch_bounds__(kThreads)
    ExchangeKernel(const KernelBatch batch, const Rule rule) {
  extern __shared__ uint4 stage[];  // 16 bytes each, for the alignment
  __shared__ Exchanged exchanged;
  Block block(reinterpret_cast<std::byte*>(stage), &exchanged);
  KernelBody<Block, Rule>(batch, rule, block).RunChain(batch.chains[blockIdx.x]);
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
