#include "train/session_gpus.h"

#include <chrono>
#include <thread>

namespace millrace::inline train {

SessionGpus::SessionGpus(const std::vector<Device*>& gpus, WeightBuffer* host, bool linked,
                         const Clock* clock)
    : host_(*host), linked_(linked), clock_(*clock) {
  for (Device* gpu : gpus) {
    replicas_.push_back(std::make_unique<DeviceWeights>(gpu, host->size()));
  }
}

void SessionGpus::Link(Cluster* cluster) {
  if (!linked_ || links_ || replicas_.empty()) return;
  DeviceLinksConfig config;
  config.host = &host_;
  for (const auto& replica : replicas_) config.devices.push_back(replica.get());
  config.cluster = cluster;
  config.clock = &clock_;
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
