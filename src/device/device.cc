#include "millrace/device.h"

#include "base/error.h"

namespace millrace {

const char* DeviceTypeName(DeviceType type) {
  if (DeviceDriver* const driver = DeviceRegistry::Get().FindDriver(type)) {
    return driver->type_name();
  }
  return type == DeviceType::kCuda ? "cuda" : "unknown";  // a build without CUDA names it, too
}

DeviceRegistry& DeviceRegistry::Get() {
  static DeviceRegistry registry;
  return registry;
}

void DeviceRegistry::Register(std::unique_ptr<DeviceDriver> driver) {
  drivers_.push_back(std::move(driver));
}

DeviceDriver* DeviceRegistry::FindDriver(DeviceType type) {
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

Device& DeviceRegistry::Find(DeviceType type, int ordinal) {
  DeviceDriver* const driver = FindDriver(type);
  if (!driver) {
    throw Error(DeviceTypeName(type), " device ", ordinal, ": this build has no ",
                DeviceTypeName(type), " devices",
                type == DeviceType::kCuda ? ": expected one with CUDA (make CUDA=on)" : "");
  }
  return driver->Open(ordinal);
}

Device& DeviceRegistry::OwnerOf(const void* pointer) {
  for (auto& driver : drivers_) {
    const int ordinal = driver->OwnerOf(pointer);
    if (ordinal >= 0) return driver->Open(ordinal);
  }
  return HostDevice();
}

}  // namespace millrace
