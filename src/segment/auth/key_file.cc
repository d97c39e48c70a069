#include "segment/auth/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "base/wire_bytes.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline segment {
namespace {

// Content of a key file, with room to detect one that is too long; wiped on destruction.
struct Content {
  std::array<std::byte, 80> bytes{};
  size_t size = 0;
  ~Content() { Wipe(bytes); }
};

// Checks the open file rather than the path, so that the file checked is the file read.
void CheckFile(const std::string& path, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) throw Error(path, ": ", ErrnoText(errno));
  if (!S_ISREG(status.st_mode)) throw Error(path, ": is not a regular file, expected a key file");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(path, ": others than its owner have permissions for it, expected none (chmod 600)");
  }
}

void ReadAll(const std::string& path, int fd, Content* content) {
  while (content->size < content->bytes.size()) {
    const ssize_t got =
        read(fd, content->bytes.data() + content->size, content->bytes.size() - content->size);
    if (got == 0) return;
    if (got > 0) {
      content->size += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      throw Error(path, ": ", ErrnoText(errno));
    }
  }
}

[[noreturn]] void RefuseContent(const std::string& path, const char* what_it_is) {
  throw Error(path, ": holds ", what_it_is, ", expected 32 bytes or 64 hexadecimal digits; make ",
              "one with (umask 077; openssl rand -hex 32 > KEY_FILE)");
}

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

SecretKey ReadKeyFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not block.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw Error(path, ": ", ErrnoText(errno));
  CheckFile(path, file.get());
  Content content;
  ReadAll(path, file.get(), &content);
  return ParseKey({reinterpret_cast<const char*>(content.bytes.data()), content.size}, path);
}

SecretKey ParseKey(std::string_view content, const std::string& name) {
  SecretKey key;
  const auto out = key.bytes();
  if (content.size() == out.size()) {
    std::copy_n(reinterpret_cast<const std::byte*>(content.data()), out.size(), out.begin());
    return key;
  }
  const size_t expected = 2 * out.size();
  if (content.size() > expected && content.ends_with('\n')) content.remove_suffix(1);
  if (content.size() > expected && content.ends_with('\r')) content.remove_suffix(1);
  if (content.size() != expected) RefuseContent(name, "a key of another length");
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = DigitValue(content[2 * i]), low = DigitValue(content[2 * i + 1]);
    if (high < 0 || low < 0) RefuseContent(name, "something else than hexadecimal digits");
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return key;
}

// Purposes begin with different labels, so no two of them are equal.

SecretKey HandshakeKey(const SecretKey& cluster, uint64_t run) {
  constexpr std::string_view kName = "millrace introduction 1";
  std::array<std::byte, kName.size() + 8> purpose;
  std::copy_n(reinterpret_cast<const std::byte*>(kName.data()), kName.size(), purpose.begin());
  Put<uint64_t>(purpose.data(), kName.size(), run);
  return DeriveKey(cluster, purpose);
}

SecretKey SessionKey(const SecretKey& cluster, uint64_t run, NodeId node, const Nonce& session_id) {
  constexpr std::string_view kName = "millrace frames 1";
  std::array<std::byte, kName.size() + 8 + 2 + sizeof(Nonce)> purpose;
  std::copy_n(reinterpret_cast<const std::byte*>(kName.data()), kName.size(), purpose.begin());
  Put<uint64_t>(purpose.data(), kName.size(), run);
  Put<uint16_t>(purpose.data(), kName.size() + 8, node);
  Put<Nonce>(purpose.data(), kName.size() + 10, session_id);
  return DeriveKey(cluster, purpose);
}

}  // namespace millrace::inline segment
