#include "millrace/device.h"

#include "base/error.h"
#include "base/module.h"
#include "base/registration.h"

namespace millrace {

const char* DeviceTypeName(DeviceType type) {
  if (DeviceDriver* const driver = DeviceRegistry::Get().FindLoaded(type)) {
    return driver->type_name();
  }
  return type == DeviceType::kCuda ? "cuda" : "unknown";  // named without its module, too
}

DeviceRegistry& DeviceRegistry::Get() {
  static DeviceRegistry registry;
  return registry;
}

void DeviceRegistry::Register(std::unique_ptr<DeviceDriver> driver) {
  if (FindLoaded(driver->type()) != nullptr) {
    return ReportSecondRegistration("device type", driver->type_name());
  }
  const std::lock_guard lock(mutex_);
  drivers_.push_back(std::move(driver));
}

DeviceDriver* DeviceRegistry::FindLoaded(DeviceType type) {
  for (DeviceDriver* const driver : Loaded()) {
    if (driver->type() == type) return driver;
  }
  return nullptr;
}

std::vector<DeviceDriver*> DeviceRegistry::Loaded() {
  const std::lock_guard lock(mutex_);
  std::vector<DeviceDriver*> loaded;
  for (const auto& driver : drivers_) loaded.push_back(driver.get());
  return loaded;
}

DeviceDriver* DeviceRegistry::FindDriver(DeviceType type) {
  DeviceDriver* const driver = FindLoaded(type);
  if (driver != nullptr || type != DeviceType::kCuda) return driver;
  LoadModule("cuda");
  return FindLoaded(type);
}

std::vector<DeviceInfo> DeviceRegistry::List() {
  FindDriver(DeviceType::kCuda);  // loads its module
  std::vector<DeviceInfo> all;
  for (DeviceDriver* const driver : Loaded()) {
    for (DeviceInfo& info : driver->List()) all.push_back(std::move(info));
  }
  return all;
}

Device& DeviceRegistry::Find(DeviceType type, int ordinal) {
  DeviceDriver* const driver = FindDriver(type);
  if (driver != nullptr) return driver->Open(ordinal);
  const std::string reason = type == DeviceType::kCuda ? LoadModule("cuda") : "";
  throw Error(DeviceTypeName(type), " device ", ordinal, ": ",
              reason.empty() ? "this program has no driver for it" : "its driver is in " + reason);
}

Device& DeviceRegistry::OwnerOf(const void* pointer) {
  for (DeviceDriver* const driver : Loaded()) {
    const int ordinal = driver->OwnerOf(pointer);
    if (ordinal >= 0) return driver->Open(ordinal);
  }
  return HostDevice();
}

}  // namespace millrace
