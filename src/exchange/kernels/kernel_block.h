// A team (kernel_body.h) of concurrent threads in warps: a GPU thread block, or host threads in
// tests.
//
// The `Lanes` parameter provides:
//   static constexpr uint32_t kWarp, kWarps   threads per warp, warps per block
//   index()          number of this thread in the block
//   Sync()           barrier for all threads of the block; writes before it are visible after it
//   Up(x, n)         x of the thread n lanes below in the warp; undefined if there is none
//   Across(x, n)     x of the thread whose lane number differs in bit n
// All threads of a warp call Up and Across together.
#ifndef MILLRACE_EXCHANGE_KERNELS_KERNEL_BLOCK_H_
#define MILLRACE_EXCHANGE_KERNELS_KERNEL_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline exchange {

// Exchange area of the warps of a block, in shared memory.
template <typename Lanes>
struct WarpSums {
  uint32_t of_warp[Lanes::kWarps];
};

// One instance per thread.
template <typename Lanes>
class KernelBlock {
 public:
  MILLRACE_HOST_DEVICE KernelBlock(std::byte* stage, WarpSums<Lanes>* sums, const Lanes& lanes)
      : stage_(stage), sums_(*sums), lanes_(lanes) {}

  template <typename Step>
  MILLRACE_HOST_DEVICE void ForEach(int64_t n, Step step) {
    for (int64_t i = lanes_.index(); i < n; i += kThreads) step(i);
    lanes_.Sync();
  }

  template <typename Value>
  MILLRACE_HOST_DEVICE int32_t Max(int64_t n, Value value) {
    int32_t own = 0;
    for (int64_t i = lanes_.index(); i < n; i += kThreads) {
      const int32_t other = value(i);
      own = other > own ? other : own;
    }
    return Combine(own, [](int32_t a, int32_t b) { return a > b ? a : b; });
  }

  template <typename Value>
  MILLRACE_HOST_DEVICE uint32_t Or(int64_t n, Value value) {
    int32_t own = 0;
    for (int64_t i = lanes_.index(); i < n; i += kThreads) own |= static_cast<int32_t>(value(i));
    return static_cast<uint32_t>(Combine(own, [](int32_t a, int32_t b) { return a | b; }));
  }

  // Processes tiles of kThreads values.
  template <typename Value, typename Word>
  MILLRACE_HOST_DEVICE uint32_t Scan(int64_t n, Value value, Word* to) {
    const uint32_t lane = lanes_.index() % Lanes::kWarp, warp = lanes_.index() / Lanes::kWarp;
    uint32_t before = 0;
    for (int64_t tile = 0; tile < n; tile += kThreads) {
      const int64_t i = tile + lanes_.index();
      const uint32_t own = i < n ? value(i) : 0;
      uint32_t sum = own;  // inclusive sum over the lanes of this warp
      for (uint32_t step = 1; step < Lanes::kWarp; step *= 2) {
        const uint32_t below = lanes_.Up(sum, step);
        if (lane >= step) sum += below;
      }
      if (lane == Lanes::kWarp - 1) sums_.of_warp[warp] = sum;
      lanes_.Sync();
      uint32_t warps_before = 0, all = 0;
      for (uint32_t w = 0; w < Lanes::kWarps; ++w) {
        if (w < warp) warps_before += sums_.of_warp[w];
        all += sums_.of_warp[w];
      }
      if (i < n) to[i] = before + warps_before + sum - own;
      before += all;
      lanes_.Sync();
    }
    return before;
  }

  template <typename Step>
  MILLRACE_HOST_DEVICE void Once(Step step) {
    lanes_.Sync();
    if (lanes_.index() == 0) step();
    lanes_.Sync();
  }

  MILLRACE_HOST_DEVICE std::byte* stage() const { return stage_; }

 private:
  static constexpr uint32_t kThreads = Lanes::kWarp * Lanes::kWarps;

  // Reduces the values of all threads; returns the result to each of them.
  template <typename Both>
  MILLRACE_HOST_DEVICE int32_t Combine(int32_t own, Both both) {
    for (uint32_t step = Lanes::kWarp / 2; step > 0; step /= 2) {
      const uint32_t across = lanes_.Across(static_cast<uint32_t>(own), step);
      own = both(own, static_cast<int32_t>(across));
    }
    const uint32_t lane = lanes_.index() % Lanes::kWarp, warp = lanes_.index() / Lanes::kWarp;
    if (lane == 0) sums_.of_warp[warp] = static_cast<uint32_t>(own);
    lanes_.Sync();
    for (uint32_t w = 0; w < Lanes::kWarps; ++w) {
      own = both(own, static_cast<int32_t>(sums_.of_warp[w]));
    }
    lanes_.Sync();
    return own;
  }

  std::byte* const stage_;
  WarpSums<Lanes>& sums_;
  const Lanes lanes_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_KERNEL_BLOCK_H_
