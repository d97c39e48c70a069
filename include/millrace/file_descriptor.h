// Owning file descriptor: closed by the destructor. -1 means none. Move-only.
#ifndef MILLRACE_FILE_DESCRIPTOR_H_
#define MILLRACE_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace millrace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace millrace

#endif  // MILLRACE_FILE_DESCRIPTOR_H_
