// Devices: where arrays lie and where work on them runs. A device is a memory space, queues of work
// (queue.h), and staging memory for copies. Each type of device registers a driver from its own
// source file; a build without CUDA only lacks that registration. Generic code takes a Device and
// does not ask for its type. Files named for a backend reach its own handles (cuda_device.h).
#ifndef MILLRACE_DEVICE_H_
#define MILLRACE_DEVICE_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "millrace/export.h"
#include "millrace/memory_space.h"
#include "millrace/queue.h"

namespace millrace {

// A driver outside this list chooses a further value.
enum class DeviceType : int { kCpu, kCuda };

// "cpu", "cuda", or the name that the type's driver gives.
MILLRACE_API const char* DeviceTypeName(DeviceType type);

// Host memory that the kernels of a device can access while this object exists.
class MILLRACE_API MemoryMapping {
 public:
  explicit MemoryMapping(std::byte* address) : address_(address) {}
  virtual ~MemoryMapping() = default;
  MemoryMapping(const MemoryMapping&) = delete;
  MemoryMapping& operator=(const MemoryMapping&) = delete;

  // Address by which kernels reach the first byte.
  std::byte* address() const { return address_; }

 private:
  std::byte* const address_;
};

// Thread-safe. Outlives all its memory, queues, events and mappings.
class MILLRACE_API Device {
 public:
  virtual ~Device() = default;

  virtual DeviceType type() const = 0;
  // Index among the devices of its type.
  virtual int ordinal() const = 0;
  // For messages: "cpu", "cuda device 0".
  virtual const std::string& name() const = 0;
  virtual MemorySpace& memory() = 0;
  // Host memory with the fastest copies to and from this device, which its kernels can access at
  // the same address: page-locked for a GPU.
  virtual MemorySpace& staging() = 0;
  // Throws Error if the device has failed.
  virtual std::unique_ptr<Queue> MakeQueue(QueuePriority priority) = 0;
  // Makes `memory`, which outlives the mapping, accessible to kernels: the device's own memory or
  // host memory. Null if that is not possible. Throws Error if the device has failed.
  virtual std::unique_ptr<MemoryMapping> Map(std::span<const std::byte> memory) = 0;
};

// The processors of this machine, with pageable memory; also its staging memory.
MILLRACE_API Device& HostDevice();
// A queue of the host for callers without one of their own. Any number of threads may use it.
MILLRACE_API Queue& HostQueue();

struct DeviceInfo {
  DeviceType type;
  int ordinal;              // index among the devices of its type
  std::string description;  // human-readable
  size_t memory_bytes;
};

// Driver for one type of device. Thread-safe.
class MILLRACE_API DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual DeviceType type() const = 0;
  // The name of type(), as DeviceTypeName gives it.
  virtual const char* type_name() const = 0;
  // Devices present now; empty if there is no hardware.
  virtual std::vector<DeviceInfo> List() = 0;
  // Why List() is empty, for messages; "" if that is not known.
  virtual std::string WhyNone() { return ""; }
  // Versions of the software below this driver, for messages: "CUDA 12.4, driver for 12.8".
  virtual std::string Versions() { return ""; }
  // Device `ordinal`; the driver owns it. Throws Error if List() has no such device.
  virtual Device& Open(int ordinal) = 0;
  // Ordinal of the device whose memory contains `pointer`; -1 if none of this type does.
  virtual int OwnerOf(const void* pointer) {
    (void)pointer;
    return -1;
  }
};

// The drivers of this program and the modules that it has loaded. Thread-safe.
class MILLRACE_API DeviceRegistry {
 public:
  static DeviceRegistry& Get();

  void Register(std::unique_ptr<DeviceDriver> driver);
  // nullptr if this installation has no such driver. Loads module cuda for kCuda.
  DeviceDriver* FindDriver(DeviceType type);
  std::vector<DeviceInfo> List();

  // Throws Error with one line if this build lacks the type or this machine lacks the device.
  Device& Find(DeviceType type, int ordinal);
  // The device whose memory contains `pointer`. All host memory is the host's, however it was
  // allocated.
  Device& OwnerOf(const void* pointer);

 private:
  friend MILLRACE_API const char* DeviceTypeName(DeviceType type);
  DeviceDriver* FindLoaded(DeviceType type);
  std::vector<DeviceDriver*> Loaded();

  std::mutex mutex_;
  // Drivers stay where they are.
  std::vector<std::unique_ptr<DeviceDriver>> drivers_;
};

// Define one at namespace scope in the driver's source file.
struct RegisterDevice {
  explicit RegisterDevice(std::unique_ptr<DeviceDriver> driver) {
    DeviceRegistry::Get().Register(std::move(driver));
  }
};

}  // namespace millrace

#endif  // MILLRACE_DEVICE_H_
