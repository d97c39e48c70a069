#include "train/device_links.h"

#include <algorithm>

namespace millrace::inline train {

DeviceLinks::DeviceLinks(const DeviceLinksConfig& config)
    : config_(config), reported_(config.devices.size()) {
  for (size_t i = 0; i < config_.devices.size(); ++i) {
    DeviceWeights* const device = config_.devices[i];
    before_.push_back(device->iterations());
    const DeviceLinkConfig link{.name = StrCat("gpu", device->device().ordinal()),
                                .root = IsRoot(i) ? LinkRoot::kDevice : LinkRoot::kHost,
                                .awaits_weights = config_.cluster_device != nullptr && !IsRoot(i),
                                .damping = config_.cluster != nullptr && config_.cluster->damps(),
                                .max_bytes_per_second = config_.max_bytes_per_second,
                                .solvers = config_.solvers,
                                .registry = config_.registry.get()};
    try {
      links_.push_back(std::make_unique<DeviceLink>(link, config_.host, device, config_.clock));
    } catch (const OutOfMemory& error) {
      throw OutOfMemory("the link of GPU ", device->device().ordinal(), ": ", error.what());
    }
  }
  // Only now, because each thread reads all links.
  for (size_t i = 0; i < links_.size(); ++i) {
    links_[i]->Start(config_.sink, [this, i] {
      if (IsRoot(i)) Lead(i);
      Count(i);
    });
  }
}

DeviceLinks::~DeviceLinks() {
  for (auto& link : links_) link->Stop();
}

void DeviceLinks::Stop() {
  for (auto& link : links_) link->Stop();
  for (size_t i = 0; i < links_.size(); ++i) Count(i);
}

bool DeviceLinks::All(bool (DeviceLink::*holds)() const, bool with_root) const {
  for (size_t i = 0; i < links_.size(); ++i) {
    if ((with_root || !IsRoot(i)) && !(*links_[i].*holds)()) return false;
  }
  return true;
}

bool DeviceLinks::in_sync() const { return All(&DeviceLink::in_sync, true); }

void DeviceLinks::Leave() {
  leaving_ = true;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (!IsRoot(i)) links_[i]->Leave();
  }
}

bool DeviceLinks::left() const { return All(&DeviceLink::left, true); }

// Runs before each pass of the host's end of the link to the device on which the cluster works. The
// other links begin once the host has that device's weights; the host leaves this link once they
// have left.
void DeviceLinks::Lead(size_t index) {
  if (leaving_ && All(&DeviceLink::left, false)) links_[index]->Leave();
  if (!links_[index]->in_sync()) return;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (i != index) links_[i]->AllowBegin();
  }
}

// Runs before each pass of the host's end of a link, in its thread.
void DeviceLinks::Count(size_t index) {
  DeviceLink& link = *links_[index];
  const bool is_root = IsRoot(index);
  const IterationClock& clock = config_.host->clock();
  const uint64_t own = config_.devices[index]->iterations() - before_[index];
  const auto all = static_cast<uint64_t>(clock.global());
  // The cluster brings the iterations of other nodes to the replica on which it works.
  const auto here = is_root ? std::min(all, static_cast<uint64_t>(clock.own())) : all;
  const uint64_t host = here - std::min(here, own);
  link.SetProgress(host, is_root ? all - host : own);
  const uint64_t by_cluster = config_.cluster != nullptr ? config_.cluster->merges() : 0;
  uint64_t into_host = config_.cluster_device == nullptr ? by_cluster : 0;
  for (size_t k = 0; k < links_.size(); ++k) {
    if (k != index) into_host += links_[k]->merges_into_host();
  }
  link.SetOtherMerges(into_host, is_root ? by_cluster : 0);
  if (config_.cluster == nullptr || (config_.cluster_device != nullptr && !is_root)) return;
  const uint64_t merges = is_root ? link.merges_into_device() : link.merges_into_host();
  config_.cluster->AddOutsideMerges(merges - reported_[index]);
  reported_[index] = merges;
}

}  // namespace millrace::inline train
