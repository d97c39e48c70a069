#include "train/device_links.h"

#include <algorithm>

namespace millrace::inline train {

DeviceLinks::DeviceLinks(const DeviceLinksConfig& config)
    : config_(config), reported_(config.devices.size()) {
  for (DeviceWeights* device : config_.devices) {
    const DeviceLinkConfig link{.name = StrCat("gpu", device->device().ordinal()),
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
    links_[i]->Start(config_.sink, [this, i] { Count(i); });
  }
}

DeviceLinks::~DeviceLinks() {
  for (auto& link : links_) link->Stop();
}

void DeviceLinks::Stop() {
  for (auto& link : links_) link->Stop();
  for (size_t i = 0; i < links_.size(); ++i) Count(i);
}

bool DeviceLinks::in_sync() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->in_sync(); });
}

void DeviceLinks::Leave() {
  for (auto& link : links_) link->Leave();
}

bool DeviceLinks::left() const {
  return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->left(); });
}

// Before each pass of the host's end of a link, in its thread.
void DeviceLinks::Count(size_t index) {
  const uint64_t own = config_.devices[index]->iterations();
  const auto all = static_cast<uint64_t>(config_.host->clock().global());
  links_[index]->SetProgress(all - std::min(all, own), own);
  uint64_t others = config_.cluster != nullptr ? config_.cluster->merges() : 0;
  for (size_t k = 0; k < links_.size(); ++k) {
    if (k != index) others += links_[k]->merges();
  }
  links_[index]->SetOtherMerges(others);
  if (config_.cluster == nullptr) return;
  const uint64_t merges = links_[index]->merges();
  config_.cluster->AddOutsideMerges(merges - reported_[index]);
  reported_[index] = merges;
}

}  // namespace millrace::inline train
