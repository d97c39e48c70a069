#include "strategy/device_allreduce.h"

#include <thread>
#include <utility>

#include "millrace/queue.h"

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

DeviceAllreduceStrategy::DeviceAllreduceStrategy(DeviceTeam* team, int index)
    : TeamStrategy(&team->team(), index),
      replica_(team->replica(index)),
      collective_(team->collective(index)),
      sums_(replica_.device().MakeQueue(QueuePriority::kNormal)),
      buckets_(replica_.size(), team->team().settings().bucket) {}

DeviceAllreduceStrategy::~DeviceAllreduceStrategy() { AbortSums(); }

std::optional<int64_t> DeviceAllreduceStrategy::Claim(int64_t limit) {
  buckets_.Restart();
  return TeamStrategy::Claim(limit);
}

void DeviceAllreduceStrategy::OnGradients(float* gradients, int64_t begin) {
  bool waits = false;
  buckets_.Complete(begin, [&](int64_t first, int64_t count) {
    if (collective_ == nullptr) return;
    if (!std::exchange(waits, true)) sums_->Wait(compute_->Record());
    summing_ = true;
    collective_->Sum(sums_.get(), {gradients + first, static_cast<size_t>(count)},
                     team().settings().average);
  });
  member().Poll();
}

void DeviceAllreduceStrategy::Update(float rate, const float* gradients, UpdateRule* rule) {
  WaitForSums();
  if (collective_ != nullptr) {
    const Event summed = sums_->Record();
    while (!summed.Done()) {
      collective_->Check();
      member().Poll();
      std::this_thread::yield();
    }
    summing_ = false;
  }
  replica_.order().Write(rule->queue(),
                         [&] { rule->Apply(rate, false, gradients, replica_.data()); });
}

void DeviceAllreduceStrategy::Complete() {
  replica_.CountIteration();
  TeamStrategy::Complete();
  // A snapshot that the solver which leads now takes holds the batches of all as used.
  team().gradients().WaitForThreads();
}

void DeviceAllreduceStrategy::Flush() {
  if (!leads_process()) return;
  if (compute_ != nullptr) compute_->Synchronize();
  replica_.CopyToHost(team().weights().data());
}

void DeviceAllreduceStrategy::Fail(std::exception_ptr error) {
  TeamStrategy::Fail(std::move(error));
  AbortSums();
}

void DeviceAllreduceStrategy::AbortSums() {
  if (!std::exchange(summing_, false)) return;
  collective_->Abort();
  try {
    sums_->Synchronize();
  } catch (const DeviceError&) {
    // The device has failed and accesses no memory any more.
  }
}

}  // namespace millrace::inline strategy
