// A file under /dev/shm that holds a header and a weight array: created, checked,
// locked, mapped and removed. What the header says is weight_buffer.h's affair.
#ifndef MILLRACE_WEIGHTS_SHM_FILE_H_
#define MILLRACE_WEIGHTS_SHM_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "weights/shm_header.h"

namespace millrace {

// "/dev/shm/NAME". Throws Error unless `name` is 1 to 200 letters, digits, '.',
// '_' or '-', and does not begin with '.'.
std::string ShmPath(const std::string& name);

// An mmap that ends with its scope. Movable, owned by one thread at a time.
class Mapping {
 public:
  Mapping() = default;
  // Memory of this process alone, zero, page-aligned; huge pages where the
  // kernel has them. `what` is named in the Error when there is no memory.
  static Mapping Anonymous(size_t bytes, const char* what);
  // `bytes` of a file from `offset` on. Throws Error naming `path`.
  static Mapping OfFile(int fd, uint64_t offset, size_t bytes, bool writable,
                        const std::string& path);
  ~Mapping();
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;

  void* get() const { return pointer_; }

 private:
  void* base_ = nullptr;
  size_t mapped_ = 0;
  void* pointer_ = nullptr;  // base_, aligned
};

// Every member may be called from any thread.
class ShmFile {
 public:
  // The file at `path`, if there is one. Throws Error when it cannot be opened,
  // belongs to another user or may be written by one, is shorter than a header, or
  // its header is not one of this version of Millrace.
  static std::unique_ptr<ShmFile> Open(const std::string& path);
  // A new file with room for the header only, which `fill` completes before any
  // other process can see it. nullptr when another process was faster. Throws
  // Error when it cannot be created.
  static std::unique_ptr<ShmFile> Create(const std::string& path,
                                         const std::function<void(ShmHeader*)>& fill);
  ~ShmFile();
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;

  const std::string& path() const { return path_; }
  ShmHeader* header() const { return static_cast<ShmHeader*>(header_.get()); }

  // Excludes other threads and other processes while it lives.
  class Lock {
   public:
    explicit Lock(ShmFile* file);
    ~Lock();

   private:
    std::lock_guard<std::mutex> threads_;
    const int fd_;
  };

  // Whether some name still leads to the file; false once it has been removed.
  bool linked() const;
  // Removes the name, if it still leads to this file.
  void Unlink();

  // Reserves memory for the array that the header announces, so that its lack
  // shows here as an Error and not later as SIGBUS.
  void AllocateArray();
  // Throws Error when the file is shorter than its header says.
  Mapping MapArray(bool writable) const;

 private:
  ShmFile(const std::string& path, int fd) : path_(path), fd_(fd) {}

  void CheckOwner() const;
  void CheckHeader() const;
  uint64_t FileBytes() const;

  const std::string path_;
  const int fd_;
  std::mutex mutex_;
  Mapping header_;
};

}  // namespace millrace

#endif  // MILLRACE_WEIGHTS_SHM_FILE_H_
