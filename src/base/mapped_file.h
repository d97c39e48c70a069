// A file mapped for reading that may be truncated, or fail, while it is read.
//
// The kernel answers a read of a mapped page that cannot be had with SIGBUS. The first MappedFile
// or BusErrorGuard of a process installs a handler for that signal, for all threads and until the
// process ends. Where the address belongs to a MappedFile, the handler notes it, puts pages of
// zeros in place of the rest of the mapping, and the read goes on: no thread is unwound, so the
// handler may interrupt any code. Every other SIGBUS goes to the handler that was installed before,
// with its arguments, or ends the process as it would without this one. A program that installs a
// SIGBUS handler of its own later replaces this one, unless its handler passes on what it does not
// know.
#ifndef MILLRACE_BASE_MAPPED_FILE_H_
#define MILLRACE_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

// Thread-safe.
class MappedFile {
 public:
  // Maps the first `size` > 0 bytes of the open file `fd`, which may be closed afterwards. Throws
  // Error, without naming the file.
  MappedFile(int fd, size_t size);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // May change while they are read, if somebody writes to the file.
  std::string_view bytes() const { return {address_, size_}; }
  // Offset of the page that a thread was the first to find missing; none if no thread has. Whoever
  // has read bytes and finds none afterwards has read no zeros in place of missing pages. What lies
  // behind the end of the file in its last page is not missing but zero: ask for its size too.
  std::optional<uint64_t> lost() const;

  struct Registration;  // what the handler knows

 private:
  const char* address_;
  const size_t size_;
  Registration* registration_;
};

// While it lives, pages that the calling thread finds missing in any mapping are replaced by zeros:
// around calls of a library that maps files by itself. Guards may be nested.
class BusErrorGuard {
 public:
  BusErrorGuard();
  ~BusErrorGuard();
  BusErrorGuard(const BusErrorGuard&) = delete;
  BusErrorGuard& operator=(const BusErrorGuard&) = delete;

  // A page was missing since the outermost guard of this thread began.
  bool hit() const;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_MAPPED_FILE_H_
