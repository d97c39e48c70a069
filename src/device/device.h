// Devices and their memory. Each device type registers a driver from its own source file; a build
// without CUDA only lacks that registration.
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

// A dma-buf file through which other devices access a block of device memory. The block begins
// `offset` bytes into the file.
struct DmaBuf {
  FileDescriptor file{-1};
  size_t offset = 0;
};

// Memory local to one device. Thread-safe.
class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  // For messages: "host memory", "cuda device 0".
  virtual std::string name() const { return "host memory"; }
  // True if CPU instructions can access this memory.
  virtual bool on_host() const { return true; }
  // Exports `bytes` > 0 bytes at `pointer`, which was allocated here. If this is not possible,
  // returns a DmaBuf without a file and sets `*why`.
  virtual DmaBuf ExportDmaBuf(const void* pointer, size_t bytes, std::string* why) {
    (void)pointer, (void)bytes;
    *why = "host memory needs none";
    return DmaBuf{};
  }

  // Returns memory with at least 64-byte alignment and undefined contents; the caller passes it to
  // Free(). `bytes` may be 0. Throws Error if there is not enough memory.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer) = 0;
  virtual void Fill(void* pointer, int byte, size_t bytes) = 0;
  virtual void CopyFromHost(void* destination, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* source, size_t bytes) = 0;
};

// Pageable host memory. CPU solvers compute in it.
MemorySpace& HostMemory();

struct DeviceInfo {
  DeviceType type;
  int ordinal;              // index among the devices of its type
  std::string description;  // human-readable
  size_t memory_bytes;
};

// Driver for one type of device.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual DeviceType type() const = 0;
  // Devices present now; empty if there is no hardware.
  virtual std::vector<DeviceInfo> List() = 0;
  // Memory of device `ordinal`; the driver owns it. Throws Error if List() has no such device.
  virtual MemorySpace& Memory(int ordinal) = 0;
  // Host memory with the fastest copies to and from device `ordinal`: page-locked for a GPU. The
  // driver owns it. Throws Error as Memory() does.
  virtual MemorySpace& Staging(int ordinal) = 0;
  // Ordinal of the device whose memory contains `pointer`; -1 if none of this type does.
  virtual int OwnerOf(const void* pointer) {
    (void)pointer;
    return -1;
  }
};

// All drivers compiled into this program.
class DeviceRegistry {
 public:
  static DeviceRegistry& Get();

  void Register(std::unique_ptr<DeviceDriver> driver);
  // nullptr if this build has no such driver.
  DeviceDriver* Find(DeviceType type);
  std::vector<DeviceInfo> List();

  // The memory that contains `pointer`, and the staging memory for copies to and from it. All host
  // memory is reported as HostMemory(), however it was allocated.
  struct Owner {
    MemorySpace* memory;
    MemorySpace* staging;
  };
  Owner OwnerOf(const void* pointer);

 private:
  std::vector<std::unique_ptr<DeviceDriver>> drivers_;
};

// Define one at namespace scope in the driver's source file.
struct RegisterDevice {
  explicit RegisterDevice(std::unique_ptr<DeviceDriver> driver) {
    DeviceRegistry::Get().Register(std::move(driver));
  }
};

// Owns a block of a memory space, which must outlive it. Move-only.
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
