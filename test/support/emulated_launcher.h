// Launches the exchange's kernels (exchange/kernels/stream_executor.h) on a fake device: the same
// kernel body as a GPU's, run lane after lane.
#ifndef MILLRACE_TEST_SUPPORT_EMULATED_LAUNCHER_H_
#define MILLRACE_TEST_SUPPORT_EMULATED_LAUNCHER_H_

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/kernel_body.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/stream_executor.h"
#include "test/support/fake_device.h"

namespace millrace::test {

// A team (kernel_body.h) that runs its lanes in turn, in an order that changes with every step.
class EmulatedTeam {
 public:
  EmulatedTeam(size_t lanes, uint64_t seed, std::span<std::byte> stage)
      : order_(lanes), rng_(seed, {lanes}), stage_(stage) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }

  template <typename Step>
  void ForEach(int64_t n, Step step) {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng_.Below(i)]);
    for (const int64_t lane : order_) {
      for (int64_t i = lane; i < n; i += static_cast<int64_t>(order_.size())) step(i);
    }
  }
  template <typename Value>
  int32_t Max(int64_t n, Value value) {
    int32_t largest = 0;
    ForEach(n, [&](int64_t i) { largest = std::max(largest, value(i)); });
    return largest;
  }
  template <typename Value>
  uint32_t Or(int64_t n, Value value) {
    uint32_t bits = 0;
    ForEach(n, [&](int64_t i) { bits |= value(i); });
    return bits;
  }
  template <typename Value, typename Word>
  uint32_t Scan(int64_t n, Value value, Word* to) {
    ForEach(n, [&](int64_t i) { to[i] = value(i); });
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; ++i) to[i] = std::exchange(sum, uint32_t{sum + to[i]});
    return sum;
  }
  template <typename Step>
  void Once(Step step) {
    step();
  }
  std::byte* stage() const { return stage_.data(); }

 private:
  std::vector<int64_t> order_;
  Rng rng_;
  std::span<std::byte> stage_;
};

// Separate function for thread sanitizer suppressions: kernels race with solvers by design.
template <typename Rule>
__attribute__((noinline)) void HogwildExchangeEmulate(const KernelBatch& batch, const Rule& rule,
                                                      EmulatedTeam& team, uint32_t block) {
  KernelBody<EmulatedTeam, Rule>(batch, rule, team).RunBlock(block, batch.blocks());
}

struct EmulatedOptions {
  size_t lanes = 32;
  uint64_t seed = 0;
  // Whose memory holds the replica's arrays; null: host memory.
  const FakeDevice* device = nullptr;
};

template <typename Rule = AdditiveRule>
class EmulatedLauncher : public KernelLauncher {
 public:
  explicit EmulatedLauncher(const EmulatedOptions& options = {}, const Rule& rule = {})
      : options_(options), rule_(rule) {}

  void Launch(const KernelBatch& batch, Queue& queue) override {
    FakeQueue::Of(queue).Enqueue([this, batch] { RunKernel(batch); });
  }

  std::vector<uint32_t> chain_counts;  // chains of each kernel that has run

 private:
  void RunKernel(KernelBatch batch) {
    if (options_.device != nullptr) {
      for (float** array : {&batch.weights, &batch.base, &batch.pending, &batch.rule_state}) {
        *array = options_.device->Alias(*array);
      }
    }
    const uint64_t kernel = chain_counts.size();
    chain_counts.push_back(batch.chain_count);
    std::vector<uint32_t> blocks(batch.blocks());
    std::iota(blocks.begin(), blocks.end(), 0u);
    Rng rng(options_.seed, {kernel});
    for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[rng.Below(i)]);
    for (const uint32_t block : blocks) {
      // Undefined at first, and then with what the block's last chain has left there.
      std::vector<std::byte> stage(batch.stage_bytes, std::byte{0x7f});
      EmulatedTeam team(options_.lanes, options_.seed + kernel, stage);
      HogwildExchangeEmulate(batch, rule_, team, block);
    }
  }

  const EmulatedOptions options_;
  const Rule rule_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_EMULATED_LAUNCHER_H_
