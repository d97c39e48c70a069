// Read-only file mapping that survives truncation of the file and I/O errors during reads.
//
// The kernel raises SIGBUS when a mapped page cannot be read. The first MappedFile or BusErrorGuard
// of a process installs a SIGBUS handler for all threads; it stays until the process ends. If the
// address belongs to a MappedFile, the handler records the offset and replaces the rest of the
// mapping by zero pages, and the read continues. No stack is unwound, so the handler may interrupt
// any code. Any other SIGBUS goes to the previously installed handler with its arguments, or
// terminates the process as it would without this handler. If the program installs its own SIGBUS
// handler later, that one replaces this one unless it forwards the signals that it does not handle.
#ifndef MILLRACE_BASE_MAPPED_FILE_H_
#define MILLRACE_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::inline base {

// Thread-safe.
class MappedFile {
 public:
  // Maps the first `size` > 0 bytes of the open file `fd`. The caller keeps `fd` and may close it
  // afterwards. Throws Error, which does not name the file.
  MappedFile(int fd, size_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The mapped bytes. They change during reads if another process writes to the file.
  std::string_view bytes() const { return {address_, size_}; }
  // Offset of the first page that a thread found missing; nullopt if there is none. If it is
  // nullopt after a read, that read returned no substituted zeros. Bytes of the last page beyond
  // the end of the file read as zero and do not count as missing, so compare the file size as well.
  std::optional<uint64_t> lost() const;

  struct Registration;  // entry read by the signal handler

 private:
  const char* address_;
  const size_t size_;
  Registration* registration_;
};

// While a guard exists, pages that the calling thread finds missing in any mapping are replaced by
// zeros. For calls into libraries that map files themselves. Guards nest; each belongs to one
// thread.
class BusErrorGuard {
 public:
  BusErrorGuard();
  ~BusErrorGuard();
  BusErrorGuard(const BusErrorGuard&) = delete;
  BusErrorGuard& operator=(const BusErrorGuard&) = delete;

  // True if a page was missing since the outermost guard of this thread was created.
  bool hit() const;
};

}  // namespace millrace::inline base

#endif  // MILLRACE_BASE_MAPPED_FILE_H_
