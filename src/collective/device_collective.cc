#include "collective/device_collective.h"

#include <map>

#include "base/error.h"
#include "base/registration.h"

namespace millrace::inline collective {
namespace {

std::map<DeviceType, MakeDeviceGroupFunction>& Makers() {
  static std::map<DeviceType, MakeDeviceGroupFunction> makers;
  return makers;
}

}  // namespace

RegisterDeviceGroup::RegisterDeviceGroup(DeviceType type, MakeDeviceGroupFunction make) {
  if (Makers().emplace(type, make).second) return;
  ReportBadRegistration(
      StrCat("two ways to sum between devices of type ", DeviceTypeName(type), ", expected one"));
}

DeviceGroup MakeDeviceGroup(std::span<Device* const> devices, Collective* between) {
  const DeviceType type = devices.front()->type();
  const auto maker = Makers().find(type);
  if (maker != Makers().end()) return maker->second(devices, between);
  throw Error("this program cannot sum between devices of type ", DeviceTypeName(type),
              type == DeviceType::kCuda ? ": its module cuda was built without nccl.h" : "");
}

}  // namespace millrace::inline collective
