#include "device/device.h"

namespace millrace {

const char* DeviceTypeName(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return "cuda";
  }
  return "unknown";
}

DeviceRegistry& DeviceRegistry::Get() {
  static DeviceRegistry registry;
  return registry;
}

void DeviceRegistry::Register(std::unique_ptr<DeviceDriver> driver) {
  drivers_.push_back(std::move(driver));
}

DeviceDriver* DeviceRegistry::Find(DeviceType type) {
  for (auto& driver : drivers_) {
    if (driver->type() == type) return driver.get();
  }
  return nullptr;
}

std::vector<DeviceInfo> DeviceRegistry::List() {
  std::vector<DeviceInfo> all;
  for (auto& driver : drivers_) {
    for (DeviceInfo& info : driver->List()) all.push_back(std::move(info));
  }
  return all;
}

DeviceRegistry::Owner DeviceRegistry::OwnerOf(const void* pointer) {
  for (auto& driver : drivers_) {
    const int ordinal = driver->OwnerOf(pointer);
    if (ordinal >= 0) return {&driver->Memory(ordinal), &driver->Staging(ordinal)};
  }
  return {&HostMemory(), &HostMemory()};
}

}  // namespace millrace
