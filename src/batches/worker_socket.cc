#include "batches/worker_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "transport/inet_address.h"

namespace millrace::inline batches {
namespace {

constexpr int kAgreeMs = 5000;  // for each step of a connection
constexpr size_t kBufferBytes = 4096;

void SetTimeout(int fd, int option, int64_t ms) {
  const timeval time{ms / 1000, (ms % 1000) * 1000};
  setsockopt(fd, SOL_SOCKET, option, &time, sizeof(time));
}

}  // namespace

WorkerSocket::WorkerSocket(const std::string& host_and_port) : buffer_(kBufferBytes) {
  const InetAddress address = ResolveUdpAddress("the service", host_and_port);
  socket_ = FileDescriptor(
      ::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd() < 0) throw Error(ErrnoText(errno));
  int error = 0;
  if (connect(fd(), &address.any, address.length()) != 0) {
    if (errno != EINPROGRESS) throw Error(ErrnoText(errno));
    pollfd polled{fd(), POLLOUT, 0};
    socklen_t length = sizeof(error);
    if (poll(&polled, 1, kAgreeMs) <= 0) throw Error("no answer");
    getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) throw Error(ErrnoText(error));
  }
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) & ~O_NONBLOCK);
  const int one = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  SetTimeout(fd(), SO_RCVTIMEO, kAgreeMs);
  SetTimeout(fd(), SO_SNDTIMEO, kAgreeMs);
}

void WorkerSocket::SetReadTimeout(int64_t ms) { SetTimeout(fd(), SO_RCVTIMEO, ms); }

size_t WorkerSocket::Receive(void* to, size_t most) {
  while (true) {
    const ssize_t got = recv(fd(), to, most, 0);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) throw Error("it has closed the connection");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) throw Error("it is silent");
    throw Error(ErrnoText(errno));
  }
}

void WorkerSocket::Read(void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    if (!has_input() && bytes >= buffer_.size()) {
      const size_t got = Receive(at, bytes);
      at += got;
      bytes -= got;
      continue;
    }
    if (!has_input()) {
      begin_ = 0;
      end_ = Receive(buffer_.data(), buffer_.size());
    }
    const size_t count = std::min(bytes, end_ - begin_);
    memcpy(at, buffer_.data() + begin_, count);
    begin_ += count;
    at += count;
    bytes -= count;
  }
}

FrameHeader WorkerSocket::ReadHeader(uint64_t max_batch_bytes) {
  std::byte bytes[kFrameHeaderBytes];
  Read(bytes, sizeof(bytes));
  const auto header = ParseFrameHeader(bytes, max_batch_bytes);
  if (!header) throw Error("it is no minibatch service");
  return *header;
}

std::string WorkerSocket::ReadPayload(const FrameHeader& header) {
  std::string payload(header.bytes, '\0');
  Read(payload.data(), payload.size());
  return payload;
}

bool WorkerSocket::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace millrace::inline batches
