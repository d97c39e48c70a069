#include "strategy/device_team.h"

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

}  // namespace millrace::inline strategy
