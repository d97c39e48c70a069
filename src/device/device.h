// Devices and the memory that belongs to them. Each kind of device registers a
// factory from a file of its own; a build without CUDA is the same program with
// one entry less.
#ifndef MILLRACE_DEVICE_DEVICE_H_
#define MILLRACE_DEVICE_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace millrace {

enum class DeviceType { kCpu, kCuda };

// "cpu", "cuda".
const char* DeviceTypeName(DeviceType type);

// A file by which other devices reach a piece of a device's memory; it begins `offset` bytes
// before the piece.
struct DmaBuf {
  FileDescriptor file{-1};
  size_t offset = 0;
};

// Memory that one device computes on. Thread-safe.
class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  // For messages: "host memory", "cuda device 0".
  virtual std::string name() const { return "host memory"; }
  // Whether the processor's own instructions reach it.
  virtual bool on_host() const { return true; }
  // Of `bytes` > 0 that were allocated here. Without a file if there is no such way, and
  // then `*why` says so.
  virtual DmaBuf ExportDmaBuf(const void* pointer, size_t bytes, std::string* why) {
    (void)pointer, (void)bytes;
    *why = "host memory needs none";
    return DmaBuf{};
  }

  // At least 64-byte aligned; contents undefined. Throws Error when there is
  // not enough memory. `bytes` may be 0 (returns a pointer that Free takes).
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer) = 0;
  virtual void Fill(void* pointer, int byte, size_t bytes) = 0;
  virtual void CopyFromHost(void* destination, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* source, size_t bytes) = 0;
};

// Pageable host memory: every CPU solver's, and the staging of everyone else.
MemorySpace& HostMemory();

struct DeviceInfo {
  DeviceType type;
  int ordinal;              // index among the devices of its type
  std::string description;  // for people
  size_t memory_bytes;
};

// One kind of device.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual DeviceType type() const = 0;
  // The devices present now; empty when there is no hardware.
  virtual std::vector<DeviceInfo> List() = 0;
  // The memory of one of them; owned by the driver. Throws Error for an ordinal
  // that List() does not name.
  virtual MemorySpace& Memory(int ordinal) = 0;
  // Host memory that copies to and from that device are fastest with: page-locked
  // for a GPU. Owned and refused as above.
  virtual MemorySpace& Staging(int ordinal) = 0;
  // The ordinal of the device whose memory `pointer` lies in; -1 if it is none of these.
  virtual int OwnerOf(const void* pointer) {
    (void)pointer;
    return -1;
  }
};

// The drivers compiled into this program, by type.
class DeviceRegistry {
 public:
  static DeviceRegistry& Get();

  void Register(std::unique_ptr<DeviceDriver> driver);
  // nullptr when this build has no such driver.
  DeviceDriver* Find(DeviceType type);
  std::vector<DeviceInfo> List();

  // The memory that `pointer` lies in, and what it is copied through. Host memory, however it
  // was allocated, is HostMemory().
  struct Owner {
    MemorySpace* memory;
    MemorySpace* staging;
  };
  Owner OwnerOf(const void* pointer);

 private:
  std::vector<std::unique_ptr<DeviceDriver>> drivers_;
};

// Put one at namespace scope in the driver's file.
struct RegisterDevice {
  explicit RegisterDevice(std::unique_ptr<DeviceDriver> driver) {
    DeviceRegistry::Get().Register(std::move(driver));
  }
};

// An owned block of some memory space.
class Buffer {
 public:
  Buffer() = default;
  Buffer(MemorySpace& space, size_t bytes)
      : space_(&space), pointer_(space.Allocate(bytes)), bytes_(bytes) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void Reset() {
    if (pointer_) space_->Free(pointer_);
    pointer_ = nullptr;
    bytes_ = 0;
  }
  template <typename T = void>
  T* get() const {
    return static_cast<T*>(pointer_);
  }
  size_t bytes() const { return bytes_; }

 private:
  MemorySpace* space_ = nullptr;
  void* pointer_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_DEVICE_DEVICE_H_
