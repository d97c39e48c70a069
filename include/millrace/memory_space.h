// Memory of a device, and blocks of it.
#ifndef MILLRACE_MEMORY_SPACE_H_
#define MILLRACE_MEMORY_SPACE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "millrace/export.h"
#include "millrace/file_descriptor.h"

namespace millrace {

// A memory space has no room for a block. The message names the space and the bytes.
class MILLRACE_API OutOfMemory : public Error {
 public:
  using Error::Error;
};

// A dma-buf file through which other devices access a block of device memory. The block begins
// `offset` bytes into the file.
struct DmaBuf {
  FileDescriptor file{-1};
  size_t offset = 0;
};

// Memory local to one device. Fill and the copies have completed when they return. They are not
// ordered with the work of a queue: the caller waits for queues that use the same bytes.
// Thread-safe.
class MILLRACE_API MemorySpace {
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
  // Free(). `bytes` may be 0. Throws OutOfMemory.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer) = 0;
  virtual void Fill(void* pointer, int byte, size_t bytes) = 0;
  virtual void CopyFromHost(void* destination, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* source, size_t bytes) = 0;
};

// Pageable host memory. CPU solvers compute in it.
MILLRACE_API MemorySpace& HostMemory();

// Owns a block of a memory space, which must outlive it. Move-only.
class MILLRACE_API Buffer {
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

#endif  // MILLRACE_MEMORY_SPACE_H_
