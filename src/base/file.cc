#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"

namespace millrace {

std::string ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(path, ": ", ErrnoText(errno));
  std::string content;
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) content.reserve(status.st_size);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      content.append(buffer, got);
    } else if (got == 0) {
      break;
    } else if (errno != EINTR) {
      const int reason = errno;
      close(fd);
      throw Error(path, ": ", ErrnoText(reason));
    }
  }
  close(fd);
  return content;
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(Cat(path, ".", getpid(), ".tmp")) {
  // A file that is there was left by a process of the same pid, or put there by another user: it
  // is removed, never written to.
  const auto create = [&] {
    fd_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd_ >= 0;
  };
  if (!create() && errno == EEXIST && unlink(temporary_.c_str()) == 0) create();
  if (fd_ < 0) throw Error(path_, ": cannot be written: ", ErrnoText(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      throw Error(path_, ": cannot be written: ", ErrnoText(errno));
    }
    bytes.remove_prefix(put);
  }
}

void AtomicFile::Commit() {
  if (fsync(fd_) != 0) throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  }
  close(fd_);
  fd_ = -1;
  // The rename itself survives a power cut only once the folder is synced.
  const std::string folder = Dirname(path_);
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory >= 0) {
    fsync(directory);
    close(directory);
  }
}

void MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(path, ": cannot be created: ", error.message());
}

std::string Dirname(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string ResolveBeside(const std::string& path, const std::string& named_in) {
  if (path.empty() || path[0] == '/' || FileExists(path)) return path;
  const std::string beside = Dirname(named_in) + path;
  return FileExists(beside) ? beside : path;
}

}  // namespace millrace
