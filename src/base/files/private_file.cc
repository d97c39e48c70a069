#include "base/files/private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace millrace::inline base {
namespace {

// Path of an open file that has no name, or whose name may refer to another file by now.
std::string NameOfDescriptor(int fd) { return StrCat("/proc/self/fd/", fd); }

}  // namespace

int CreateUnnamed(const std::string& folder) {
  return open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

bool LinkUnnamed(int fd, const std::string& path) {
  return linkat(AT_FDCWD, NameOfDescriptor(fd).c_str(), AT_FDCWD, path.c_str(),
                AT_SYMLINK_FOLLOW) == 0;
}

void UnlinkIfSame(int fd, const std::string& path) {
  struct stat here, there;
  if (fstat(fd, &here) != 0 || lstat(path.c_str(), &there) != 0) return;
  if (here.st_ino == there.st_ino && here.st_dev == there.st_dev) unlink(path.c_str());
}

std::optional<FoundFile> FindFile(const std::string& path) {
  FoundFile found{FileDescriptor(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)), {}};
  if (found.at.get() < 0 && errno == ENOENT) return std::nullopt;
  if (found.at.get() < 0 || fstat(found.at.get(), &found.status) != 0) {
    throw Error(path, ": cannot be looked at: ", ErrnoText(errno));
  }
  return found;
}

FileDescriptor OpenFound(const FoundFile& found, const std::string& path) {
  if (!S_ISREG(found.status.st_mode)) {
    throw Error(path, ": is ", FileKind(found.status.st_mode), ", expected a regular file");
  }
  // O_NONBLOCK: if the owner holds a lease on the file, open() would otherwise block.
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  FileDescriptor file(open(NameOfDescriptor(found.at.get()).c_str(), kFlags));
  if (file.get() < 0) throw Error(path, ": cannot be read: ", ErrnoText(errno));
  return file;
}

const char* FileKind(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace millrace::inline base
