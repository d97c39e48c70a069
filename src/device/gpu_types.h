// The types of devices that layers and update rules for GPUs run on. Code for GPUs is generic: it
// consists of kernels (device/kernel.h) and calls of a GpuLibrary. It becomes available on each
// type of device that a backend adds here.
#ifndef MILLRACE_DEVICE_GPU_TYPES_H_
#define MILLRACE_DEVICE_GPU_TYPES_H_

#include <functional>
#include <vector>

#include "millrace/device.h"

namespace millrace::inline device {

// Used before main() only, in any order.
class GpuTypes {
 public:
  using Visit = std::function<void(DeviceType)>;

  // Calls `visit` with each type that has been added, and each that will be.
  static void ForEach(Visit visit);
  static void Add(DeviceType type);

 private:
  static GpuTypes& Get();

  std::vector<DeviceType> types_;
  std::vector<Visit> visits_;
};

// Define one at namespace scope in the file with a backend's GpuLibrary.
struct RegisterGpuType {
  explicit RegisterGpuType(DeviceType type) { GpuTypes::Add(type); }
};

}  // namespace millrace::inline device

#endif  // MILLRACE_DEVICE_GPU_TYPES_H_
