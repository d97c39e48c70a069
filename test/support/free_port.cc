#include "test/support/free_port.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "millrace/file_descriptor.h"
#include "transport/udp/socket.h"

namespace millrace::test {
namespace {

constexpr int kFirst = 10'000, kCount = 20'000;

// A name that only one process can have, as long as it keeps the socket.
FileDescriptor Claim(int port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = StrCat("millrace test port ", port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: there is no file
  FileDescriptor claim(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(claim.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return FileDescriptor();
  return claim;
}

bool IsFree(int port) {
  try {
    UdpSocket({.address = StrCat("0.0.0.0:", port)});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

int FreePort() {
  static std::mutex mutex;
  static std::vector<FileDescriptor> claims;
  static int next = getpid() * 37;  // so that processes seldom try the same ports
  const std::lock_guard lock(mutex);
  for (int i = 0; i < kCount; ++i) {
    const int port = kFirst + next++ % kCount;
    FileDescriptor claim = Claim(port);
    if (claim.get() < 0 || !IsFree(port)) continue;
    claims.push_back(std::move(claim));
    return port;
  }
  throw Error("no free UDP port from ", kFirst, " to ", kFirst + kCount - 1);
}

}  // namespace millrace::test
