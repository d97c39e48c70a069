#include "strategy/synchronous_merge.h"

#include <algorithm>

#include "millrace/device.h"

namespace millrace::inline strategy {

using Rule = SynchronousMergeConfig::Rule;

void MoveCenter(const SynchronousMergeConfig& config, int solvers, int64_t count, const float* sum,
                float* velocity, float* center) {
  const float share = 1 / static_cast<float>(solvers);
  switch (config.rule) {
    case Rule::kAdditive:
      for (int64_t i = 0; i < count; ++i) center[i] += sum[i];
      return;
    case Rule::kAverage:
      for (int64_t i = 0; i < count; ++i) center[i] += share * sum[i];
      return;
    case Rule::kElastic:
      for (int64_t i = 0; i < count; ++i) center[i] += config.pull * sum[i];
      return;
    case Rule::kOuter:
      for (int64_t i = 0; i < count; ++i) {
        const float mean = share * sum[i];
        velocity[i] = config.momentum * velocity[i] + mean;
        const float step = config.nesterov ? mean + config.momentum * velocity[i] : velocity[i];
        center[i] += config.rate * step;
      }
  }
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
  rule->Apply(rate, false, gradients, weights());
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
    for (int64_t i = begin; i < end; ++i) {
      sums_[i] = weights()[i] - center()[i];
      if (elastic) weights()[i] -= config_.pull * sums_[i];
    }
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
