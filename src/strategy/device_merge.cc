#include "strategy/device_merge.h"

#include <algorithm>
#include <vector>

#include "device/kernel.h"
#include "strategy/merge_kernels.h"

namespace millrace::inline strategy {
namespace {

using Rule = SynchronousMergeConfig::Rule;

Buffer ArrayLike(const DeviceWeights& weights, const char* what) {
  try {
    return Buffer(weights.device().memory(), weights.size() * sizeof(float));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(what, " of the merge rule: ", error.what());
  }
}

}  // namespace

DeviceMergeStrategy::DeviceMergeStrategy(DeviceTeam* team, int index,
                                         const SynchronousMergeConfig& config)
    : DeviceTeamStrategy(team, index),
      config_(config),
      center_(ArrayLike(replica(), "the center")),
      sums_(ArrayLike(replica(), "the sums")),
      velocity_(config.rule == Rule::kOuter ? ArrayLike(replica(), "the velocity") : Buffer()) {
  MemorySpace& memory = device().memory();
  // No solver merges before all of them have copied the center.
  memory.CopyFromHost(center_.get(), team->team().weights().data(), center_.bytes());
  if (velocity_.bytes() > 0) memory.Fill(velocity_.get(), 0, velocity_.bytes());
}

void DeviceMergeStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  Write(compute(), [&] { rule->Apply(rate, together(), gradients, weights()); });
  Enqueued();
}

void DeviceMergeStrategy::Enqueued() {
  merges_ = claimed() % config_.every == 0 || claimed_last();
  if (merges_) WaitForSums();
}

void DeviceMergeStrategy::Complete() {
  replica().CountIteration();
  if (merges_) Merge();
  TeamStrategy::Complete();
}

void DeviceMergeStrategy::Merge() {
  const int64_t size = replica().size();
  Write(compute(), [&] {
    device::Launch(*compute(), size,
                   TakeDifferences{center(), has_own_weights() ? config_.pull : 0, weights(),
                                   sums_.get<float>()});
  });
  FollowCompute();
  const int64_t bucket = team().settings().bucket;
  for (int64_t begin = 0; begin < size; begin += bucket) {
    const int64_t count = std::min(bucket, size - begin);
    EnqueueSum({sums_.get<float>() + begin, static_cast<size_t>(count)}, false);
    member().Poll();
  }
  float enqueued = 1;
  member().Sum({&enqueued, 1});
  WaitForDeviceSums();
  Write(compute(), [&] {
    MoveCenter(compute(), config_, solvers(), size, sums_.get<float>(), velocity_.get<float>(),
               center());
    if (!has_own_weights()) compute()->Copy(weights(), center(), center_.bytes());
  });
  center_moved_ = true;
  // A snapshot that the solver which leads now takes holds the batches of all as used.
  team().gradients().WaitForThreads();
}

DeviceMergeStrategy::~DeviceMergeStrategy() { AbortSums(); }

void DeviceMergeStrategy::Flush() {
  if (compute() != nullptr) compute()->Synchronize();
  // Before the first merge, others may still copy the host's weights, which the center has.
  if (!leads_process() || !center_moved_) return;
  device().memory().CopyToHost(team().weights().data(), center(), center_.bytes());
}

void DeviceMergeStrategy::ExportState(SolverPart* part) const {
  if (compute() != nullptr) compute()->Synchronize();
  std::vector<float> copy(center_.bytes() / sizeof(float));
  const auto add = [&](const char* name, const float* array) {
    device().memory().CopyToHost(copy.data(), array, center_.bytes());
    AddArray(name, copy, part);
  };
  if (velocity_.bytes() > 0 && leads_process()) add("velocity", velocity_.get<float>());
  if (has_own_weights()) add("weights", replica().data());
}

void DeviceMergeStrategy::RestoreState(const StateReader& leader, const StateReader* own) {
  const auto restore = [&](const StateReader& part, const char* name, float* array) {
    const std::span<const float> stored = part.Array(name, static_cast<size_t>(replica().size()));
    device().memory().CopyFromHost(array, stored.data(), center_.bytes());
  };
  if (velocity_.bytes() > 0) restore(leader, "velocity", velocity_.get<float>());
  if (has_own_weights() && own != nullptr) restore(*own, "weights", weights());
}

}  // namespace millrace::inline strategy
