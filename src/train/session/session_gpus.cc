#include "train/session/session_gpus.h"

#include <chrono>
#include <thread>

namespace millrace::inline train {

SessionGpus::SessionGpus(RunSetup* setup)
    : setup_(*setup), linked_(setup->gpus() > 0 && setup->config.strategy->links_devices) {}

void SessionGpus::Link(Cluster* cluster) {
  if (!linked_ || links_) return;
  DeviceLinksConfig config;
  config.host = setup_.weights.get();
  for (const auto& replica : setup_.gpu_weights) config.devices.push_back(replica.get());
  config.cluster = cluster;
  config.clock = &setup_.clock;
  config.sink = &errors_;
  links_ = std::make_unique<DeviceLinks>(config);
  Await(&DeviceLinks::in_sync);
}

void SessionGpus::Unlink() {
  if (!links_) return;
  links_->Leave();
  Await(&DeviceLinks::left);
  links_->Stop();
  links_.reset();
}

void SessionGpus::Await(bool (DeviceLinks::*holds)() const) const {
  while (!(*links_.*holds)()) {
    errors_.RethrowIfFailed();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  errors_.RethrowIfFailed();
}

}  // namespace millrace::inline train
