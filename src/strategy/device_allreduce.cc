#include "strategy/device_allreduce.h"

#include <utility>

namespace millrace::inline strategy {

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
                          [&] { rule->Apply(rate, false, gradients, replica().data()); });
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

}  // namespace millrace::inline strategy
