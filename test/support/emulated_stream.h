// Emulated kernel stream (exchange/kernels/kernel_stream.h) without a GPU. It runs the same kernel
// body on the calling thread, lane after lane, immediately or deferred.
#ifndef MILLRACE_TEST_SUPPORT_EMULATED_STREAM_H_
#define MILLRACE_TEST_SUPPORT_EMULATED_STREAM_H_

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exchange/kernels/additive_rule.h"
#include "exchange/kernels/kernel_body.h"
#include "exchange/kernels/kernel_stream.h"
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
                                                      EmulatedTeam& team, uint32_t chain) {
  KernelBody<EmulatedTeam, Rule>(batch, rule, team).RunChain(chain);
}

struct EmulatedStreamOptions {
  size_t lanes = 32;
  uint64_t seed = 0;
  // Defers each kernel until it is awaited or Advance is called; otherwise kernels run immediately.
  bool late = false;
  uint64_t fails_at = UINT64_MAX;  // index from 0 of the launch that breaks the device
  // Translates addresses of the replica's arrays for kernels; null: the executor's addresses are
  // used.
  const FakeDevice* device = nullptr;
};

template <typename Rule = AdditiveRule>
class EmulatedStream : public KernelStream {
 public:
  explicit EmulatedStream(const EmulatedStreamOptions& options = {}, const Rule& rule = {})
      : options_(options), rule_(rule), ends_(kMostLaunches) {}
  ~EmulatedStream() override { RunUpTo(launched_); }

  const std::string& name() const override { return name_; }
  MemorySpace& shared() override { return HostMemory(); }
  // Returns the same address, unless the test maps it to another one (Map) or refuses registration.
  std::byte* RegisterMemory(std::span<const std::byte> memory) override {
    if (refuses_to_share) return nullptr;
    for (const auto& [host, device] : mapped_) {
      if (host == memory.data()) return device;
    }
    return const_cast<std::byte*>(memory.data());
  }
  void Launch(const KernelBatch& batch, size_t slot) override {
    if (launched_ == options_.fails_at) failure_ = "an illegal address was met";
    if (!failure_.empty()) return;
    batches_.push_back(batch);
    ends_[slot] = ++launched_;
    most_under_way = std::max(most_under_way, launched_ - run_);
    if (!options_.late) RunUpTo(launched_);
  }
  void Wait(size_t slot) override {
    ++waits;
    if (failure_.empty()) RunUpTo(ends_[slot]);
  }
  const std::string& failure() const override { return failure_; }

  // Runs the oldest pending kernel.
  void Advance() { RunUpTo(run_ + 1); }
  void Map(const std::byte* host, std::byte* device) { mapped_.push_back({host, device}); }
  void Fail(const std::string& why) { failure_ = why; }
  uint64_t launched() const { return launched_; }
  uint64_t run() const { return run_; }

  bool refuses_to_share = false;
  int waits = 0;
  uint64_t most_under_way = 0;         // largest number of kernels in flight
  std::vector<uint32_t> chain_counts;  // chains of each kernel that has run

 private:
  void RunUpTo(uint64_t launch) {
    for (; run_ < std::min(launch, launched_) && failure_.empty(); ++run_) {
      KernelBatch batch = batches_.front();
      batches_.pop_front();
      if (options_.device != nullptr) {
        for (float** array : {&batch.weights, &batch.base, &batch.pending, &batch.rule_state}) {
          *array = options_.device->Alias(*array);
        }
      }
      chain_counts.push_back(batch.chain_count);
      std::vector<uint32_t> chains(batch.chains, batch.chains + batch.chain_count);
      Rng rng(options_.seed, {run_});
      for (size_t i = chains.size(); i > 1; --i) std::swap(chains[i - 1], chains[rng.Below(i)]);
      for (const uint32_t chain : chains) {
        // A chain must not depend on stage contents left by an earlier one.
        std::vector<std::byte> stage(batch.stage_bytes, std::byte{0x7f});
        EmulatedTeam team(options_.lanes, options_.seed + run_, stage);
        HogwildExchangeEmulate(batch, rule_, team, chain);
      }
    }
  }

  const EmulatedStreamOptions options_;
  const Rule rule_;
  const std::string name_ = "emulated device 0";
  std::string failure_;
  std::deque<KernelBatch> batches_;
  std::vector<uint64_t> ends_;
  std::vector<std::pair<const std::byte*, std::byte*>> mapped_;
  uint64_t launched_ = 0, run_ = 0;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_EMULATED_STREAM_H_
