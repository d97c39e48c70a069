#include "topology/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace millrace {
namespace {

constexpr const char* kHowTo = "make one with: (umask 077; openssl rand -hex 32 > KEY_FILE)";

// -1 if it is no hex digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

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
void CheckFile(const OpenFile& file, const std::string& path) {
  struct stat status;
  if (fstat(file.fd(), &status) != 0) throw Error(path, ": ", ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) throw Error(path, ": is not a file");
  if (status.st_mode & (S_IRWXG | S_IRWXO)) {
    throw Error(path, ": others than its owner have permissions for it, expected none (chmod 600)");
  }
}

}  // namespace

std::string ParseKey(const std::string& content, const std::string& path) {
  const size_t last = content.find_last_not_of(" \t\r\n");
  const std::string text = content.substr(0, last == std::string::npos ? 0 : last + 1);
  std::string key = content;
  if (!text.empty() &&
      std::all_of(text.begin(), text.end(), [](char c) { return HexValue(c) >= 0; })) {
    if (text.size() % 2 != 0) {
      throw Error(path, ": holds ", text.size(), " hex digits, expected an even number");
    }
    key.clear();
    for (size_t i = 0; i < text.size(); i += 2) {
      key += static_cast<char>(HexValue(text[i]) * 16 + HexValue(text[i + 1]));
    }
  }
  if (key.size() < kLeastKeyBytes) {
    throw Error(path, ": holds a key of ", key.size(), " bytes, expected at least ", kLeastKeyBytes,
                "; ", kHowTo);
  }
  return key;
}

std::string LoadKeyFile(const std::string& path) {
  const OpenFile file(path);
  CheckFile(file, path);
  std::string content(kMostKeyFileBytes + 1, '\0');
  size_t bytes = 0;
  while (bytes < content.size()) {
    const ssize_t got = read(file.fd(), content.data() + bytes, content.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(path, ": ", ErrnoText(errno));
    if (got == 0) break;
    bytes += static_cast<size_t>(got);
  }
  if (bytes > kMostKeyFileBytes) {
    throw Error(path, ": is larger than ", kMostKeyFileBytes, " bytes, expected a key; ", kHowTo);
  }
  content.resize(bytes);
  return ParseKey(content, path);
}

}  // namespace millrace
