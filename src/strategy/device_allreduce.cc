#include "strategy/device_allreduce.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "device/kernel.h"
#include "millrace/queue.h"
#include "strategy/merge_kernels.h"

namespace millrace::inline strategy {

DeviceTeam::DeviceTeam(std::shared_ptr<AllreduceTeam> team,
                       const std::vector<DeviceWeights*>& replicas, Processes* processes)
    : team_(std::move(team)), replicas_(replicas) {
  for (DeviceWeights* replica : replicas_) replica->CopyFromHost(team_->weights().data());
  if (team_->gradients().member(0).size() == 1) return;
  std::vector<Device*> devices;
  for (const DeviceWeights* replica : replicas_) devices.push_back(&replica->device());
  const std::unique_ptr<Collective> between = processes ? processes->NewGroup() : nullptr;
  group_ = MakeDeviceGroup(devices, between.get());
}

DeviceTeamStrategy::DeviceTeamStrategy(DeviceTeam* team, int index)
    : TeamStrategy(&team->team(), index),
      replica_(team->replica(index)),
      collective_(team->collective(index)),
      sums_(replica_.device().MakeQueue(QueuePriority::kNormal)) {}

DeviceTeamStrategy::~DeviceTeamStrategy() { AbortSums(); }

void DeviceTeamStrategy::FollowCompute() {
  if (collective_ != nullptr) sums_->Wait(compute_->Record());
}

void DeviceTeamStrategy::EnqueueSum(std::span<float> values, bool average) {
  if (collective_ == nullptr) return;
  summing_ = true;
  collective_->Sum(sums_.get(), values, average);
}

void DeviceTeamStrategy::WaitForDeviceSums() {
  if (collective_ == nullptr) return;
  const Event summed = sums_->Record();
  while (!summed.Done()) {
    collective_->Check();
    member().Poll();
    std::this_thread::yield();
  }
  summing_ = false;
}

void DeviceTeamStrategy::Fail(std::exception_ptr error) {
  TeamStrategy::Fail(std::move(error));
  AbortSums();
}

void DeviceTeamStrategy::AbortSums() {
  if (!std::exchange(summing_, false)) return;
  collective_->Abort();
  try {
    sums_->Synchronize();
  } catch (const DeviceError&) {
    // The device has failed and accesses no memory any more.
  }
}

DeviceAllreduceStrategy::DeviceAllreduceStrategy(DeviceTeam* team, int index)
    : DeviceTeamStrategy(team, index), buckets_(replica().size(), team->team().settings().bucket) {}

std::optional<int64_t> DeviceAllreduceStrategy::Claim(int64_t limit) {
  buckets_.Restart();
  return TeamStrategy::Claim(limit);
}

void DeviceAllreduceStrategy::OnGradients(float* gradients, int64_t begin) {
  bool follows = false;
  buckets_.Complete(begin, [&](int64_t first, int64_t count) {
    if (!std::exchange(follows, true)) FollowCompute();
    EnqueueSum({gradients + first, static_cast<size_t>(count)}, team().settings().average);
  });
  member().Poll();
}

void DeviceAllreduceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  WaitForSums();
  WaitForDeviceSums();
  replica().order().Write(rule->queue(),
                          [&] { rule->Apply(rate, 0, gradients, replica().data()); });
}

void DeviceAllreduceStrategy::Complete() {
  replica().CountIteration();
  TeamStrategy::Complete();
  // A snapshot that the solver which leads now takes holds the batches of all as used.
  team().gradients().WaitForThreads();
}

void DeviceAllreduceStrategy::Flush() {
  if (!leads_process()) return;
  if (compute() != nullptr) compute()->Synchronize();
  replica().CopyToHost(team().weights().data());
}

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
  Write(compute(), [&] { rule->Apply(rate, look_ahead(), gradients, weights()); });
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
