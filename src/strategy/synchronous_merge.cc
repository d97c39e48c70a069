#include "strategy/synchronous_merge.h"

#include <algorithm>

#include "device/kernel.h"
#include "millrace/device.h"
#include "strategy/merge_kernels.h"

namespace millrace::inline strategy {

using Rule = SynchronousMergeConfig::Rule;

namespace {

// Calls run(kernel) for the kernel that moves the center.
template <typename Run>
void RunCenterKernel(const SynchronousMergeConfig& config, int solvers, const float* sum,
                     float* velocity, float* center, Run run) {
  const float mean = 1 / static_cast<float>(solvers);
  switch (config.rule) {
    case Rule::kAdditive:
      return run(AddSum{sum, 1, center});
    case Rule::kAverage:
      return run(AddSum{sum, mean, center});
    case Rule::kElastic:
      return run(AddSum{sum, config.pull, center});
    case Rule::kOuter:
      return run(OuterStep{sum, mean, config.momentum, config.rate, config.nesterov ? 1.0f : 0.0f,
                           config.nesterov ? config.momentum : 1, velocity, center});
  }
}

}  // namespace

void MoveCenter(Queue* queue, const SynchronousMergeConfig& config, int solvers, int64_t count,
                const float* sum, float* velocity, float* center) {
  RunCenterKernel(config, solvers, sum, velocity, center,
                  [&](const auto& kernel) { device::Launch(*queue, count, kernel); });
}

void MoveCenter(const SynchronousMergeConfig& config, int solvers, int64_t count, const float* sum,
                float* velocity, float* center) {
  RunCenterKernel(config, solvers, sum, velocity, center,
                  [&](const auto& kernel) { RunOnHost(count, kernel); });
}

SynchronousMergeStrategy::SynchronousMergeStrategy(AllreduceTeam* team, int index,
                                                   const SynchronousMergeConfig& config)
    : TeamStrategy(team, index),
      config_(config),
      weights_(HostDevice().memory(), team->weights().size() * sizeof(float)),
      sums_(team->weights().size()),
      velocity_(config.rule == Rule::kOuter && leads_process() ? sums_.size() : 0) {
  // No solver merges before all of them have copied the center.
  std::copy_n(center(), sums_.size(), weights());
}

void SynchronousMergeStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  rule->Apply(rate, 0, gradients, weights());
  merges_ = claimed() % config_.every == 0 || claimed_last();
  if (merges_) WaitForSums();
}

void SynchronousMergeStrategy::Complete() {
  if (merges_) Merge();
  TeamStrategy::Complete();
}

void SynchronousMergeStrategy::ExportState(SolverPart* part) const {
  if (!velocity_.empty()) AddArray("velocity", velocity_, part);
  if (config_.rule != Rule::kElastic) return;
  AddArray("weights", {weights_.get<float>(), sums_.size()}, part);
}

void SynchronousMergeStrategy::RestoreState(const StateReader& leader, const StateReader* own) {
  if (!velocity_.empty()) {
    const std::span<const float> stored = leader.Array("velocity", velocity_.size());
    std::copy(stored.begin(), stored.end(), velocity_.begin());
  }
  if (config_.rule != Rule::kElastic || own == nullptr) return;
  const std::span<const float> stored = own->Array("weights", sums_.size());
  std::copy(stored.begin(), stored.end(), weights());
}

void SynchronousMergeStrategy::Merge() {
  const auto size = static_cast<int64_t>(sums_.size());
  const bool elastic = config_.rule == Rule::kElastic;
  const int64_t bucket = team().settings().bucket;
  for (int64_t begin = 0; begin < size; begin += bucket) {
    const int64_t end = std::min(begin + bucket, size);
    RunOnHost(end - begin, TakeDifferences{center() + begin, elastic ? config_.pull : 0,
                                           weights() + begin, sums_.data() + begin});
    member().StartSum({sums_.data() + begin, static_cast<size_t>(end - begin)}, leads_process());
    member().Poll();
  }
  member().Wait();
  if (leads_process()) {
    MoveCenter(config_, solvers(), size, sums_.data(), velocity_.data(), center());
  }
  team().gradients().WaitForThreads();
  if (!elastic) std::copy_n(center(), size, weights());
}

}  // namespace millrace::inline strategy
