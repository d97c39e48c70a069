// A file under /dev/shm that holds a header and a weight array: creation, validation, locking,
// mapping and removal. weight_buffer.h interprets the header.
#ifndef MILLRACE_WEIGHTS_SHM_FILE_H_
#define MILLRACE_WEIGHTS_SHM_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "weights/shm_header.h"

namespace millrace::inline weights {

// Returns "/dev/shm/NAME". Throws Error unless `name` is 1 to 200 letters, digits, '.', '_' or '-'
// and does not begin with '.'.
std::string ShmPath(const std::string& name);

// Owns an mmap region. Movable; used by one thread at a time.
class Mapping {
 public:
  Mapping() = default;
  // Private zeroed memory, page-aligned, on huge pages where the kernel has them. Throws Error
  // naming `what` if there is no memory.
  static Mapping Anonymous(size_t bytes, const char* what);
  // Maps `bytes` of the file `fd`, starting at `offset`. Throws Error naming `path`.
  static Mapping OfFile(int fd, uint64_t offset, size_t bytes, bool writable,
                        const std::string& path);
  ~Mapping();
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;

  void* get() const { return pointer_; }

 private:
  void* base_ = nullptr;
  size_t mapped_ = 0;
  void* pointer_ = nullptr;  // base_, rounded up to the alignment
};

// Thread-safe.
class ShmFile {
 public:
  // Opens the file at `path`; nullptr if it does not exist. Throws Error if it cannot be opened,
  // belongs to or is writable by another user, is shorter than a header, or has a header of another
  // program or version.
  static std::unique_ptr<ShmFile> Open(const std::string& path);
  // Creates a file that has room for the header only. `fill` completes the header before any other
  // process can see the file. Returns nullptr if another process created `path` first. Throws Error
  // if the file cannot be created.
  static std::unique_ptr<ShmFile> Create(const std::string& path,
                                         const std::function<void(ShmHeader*)>& fill);
  ~ShmFile();
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;

  const std::string& path() const { return path_; }
  ShmHeader* header() const { return static_cast<ShmHeader*>(header_.get()); }

  // Excludes other threads and other processes (flock) while it exists. `file` must outlive it.
  class Lock {
   public:
    explicit Lock(ShmFile* file);
    ~Lock();

   private:
    std::lock_guard<std::mutex> threads_;
    const int fd_;
  };

  // False once the file has been unlinked.
  bool linked() const;
  // Unlinks path() if it still names this file.
  void Unlink();

  // Reserves memory for the array described by the header. Throws Error if there is not enough,
  // which would otherwise raise SIGBUS later.
  void AllocateArray();
  // Throws Error if the file is shorter than its header says.
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

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_SHM_FILE_H_
