#include "topology/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace millrace {
namespace {

constexpr size_t kKeyBytes = 32;

// What a key file may hold, and a little more; does not stay in memory.
struct Content {
  std::array<char, 80> bytes{};
  size_t size = 0;
  ~Content() { explicit_bzero(bytes.data(), bytes.size()); }
};

class OpenFile {
 public:
  // Not blocking: the path may turn out to be a pipe that nobody writes to.
  explicit OpenFile(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw Error(path, ": ", ErrnoText(errno));
  }
  ~OpenFile() { close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Asked of the open file, so that what is checked is what is read.
void CheckPermissions(const OpenFile& file, const std::string& path) {
  struct stat status;
  if (fstat(file.fd(), &status) != 0) throw Error(path, ": ", ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) throw Error(path, ": is not a regular file, expected a key file");
  if (status.st_mode & (S_IRWXG | S_IRWXO)) {
    throw Error(path, ": others than its owner have permissions for it, expected none (chmod 600)");
  }
}

void Read(const OpenFile& file, const std::string& path, Content* content) {
  while (content->size < content->bytes.size()) {
    const ssize_t got = read(file.fd(), content->bytes.data() + content->size,
                             content->bytes.size() - content->size);
    if (got == 0) return;
    if (got > 0) {
      content->size += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      throw Error(path, ": ", ErrnoText(errno));
    }
  }
}

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool IsKey(std::string_view content) {
  if (content.size() == kKeyBytes) return true;
  if (content.ends_with('\n')) content.remove_suffix(1);
  if (content.ends_with('\r')) content.remove_suffix(1);
  return content.size() == 2 * kKeyBytes && std::all_of(content.begin(), content.end(), IsHexDigit);
}

}  // namespace

void CheckKeyFile(const std::string& path) {
  const OpenFile file(path);
  CheckPermissions(file, path);
  Content content;
  Read(file, path, &content);
  if (IsKey({content.bytes.data(), content.size})) return;
  throw Error(path, ": holds no key, expected 32 bytes or 64 hex digits; make one with ",
              "(umask 077; openssl rand -hex 32 > KEY_FILE)");
}

}  // namespace millrace
