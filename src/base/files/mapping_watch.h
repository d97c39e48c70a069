// Keeps a process alive that reads a mapped file while another process truncates it, or whose
// storage fails.
//
// The kernel raises SIGBUS when a mapped page cannot be read. The first MappingWatch or
// BusErrorGuard of a process installs a SIGBUS handler for all threads; it stays until the process
// ends. If the address belongs to a watched mapping, the handler records the offset and replaces
// the rest of the mapping by zero pages, and the read continues. No stack is unwound, so the
// handler may interrupt any code. Any other SIGBUS goes to the previously installed handler with
// its arguments, or terminates the process as it would without this handler. If the program
// installs its own SIGBUS handler later, that one replaces this one unless it forwards the signals
// that it does not handle.
#ifndef MILLRACE_BASE_FILES_MAPPING_WATCH_H_
#define MILLRACE_BASE_FILES_MAPPING_WATCH_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::inline base {

// A watched read-only mapping, made by a library that does not say where it is. Thread-safe.
class MappingWatch {
 public:
  // Watches the mapping that `inside` points into. Throws Error, which does not name the file.
  explicit MappingWatch(const void* inside);
  // Must be called before the mapping is removed.
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  // The whole mapping, to the end of its last page.
  std::string_view bytes() const { return bytes_; }
  // Offset of the first page that a thread found missing; nullopt if there is none. If it is
  // nullopt after a read, that read returned no substituted zeros. Bytes of the last page beyond
  // the end of the file read as zero and do not count as missing, so compare the file size as well.
  std::optional<uint64_t> lost() const;

  struct Registration;  // entry read by the signal handler

 private:
  const std::string_view bytes_;
  Registration* const registration_;
};

// While a guard exists, pages that the calling thread finds missing in any mapping are replaced by
// zeros. For calls into libraries that map files themselves and check what they read. Guards nest;
// each belongs to one thread.
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

#endif  // MILLRACE_BASE_FILES_MAPPING_WATCH_H_
