#include "batches/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace millrace::inline batches {

void Connection::Send(std::string frame) {
  if (!out_.empty() && out_.back().bytes.empty()) {
    out_.back().frame += frame;  // one message for both
    return;
  }
  out_.push_back({std::move(frame), {}, {}});
}

void Connection::Send(std::string frame, std::string_view bytes, std::function<void()> sent) {
  out_.push_back({std::move(frame), bytes, std::move(sent)});
}

void Connection::Flush() {
  if (has_failed_) out_.clear();
  while (!out_.empty()) {
    Out& out = out_.front();
    std::string_view parts[] = {out.frame, out.bytes};
    size_t skipped = out.done;
    iovec data[2];
    size_t count = 0;
    for (std::string_view part : parts) {
      const size_t skip = std::min(skipped, part.size());
      skipped -= skip;
      part.remove_prefix(skip);
      if (!part.empty()) data[count++] = {const_cast<char*>(part.data()), part.size()};
    }
    msghdr message{};
    message.msg_iov = data;
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      has_failed_ = true;
      return out_.clear();
    }
    out.done += static_cast<size_t>(sent);
    if (out.done < out.frame.size() + out.bytes.size()) continue;
    const std::function<void()> done = std::move(out.sent);
    out_.pop_front();
    if (done) done();
  }
}

bool Connection::Receive(const std::function<bool(FrameDecoder::Frame)>& on_frame) {
  char buffer[64 << 10];
  // One buffer at a time, so that no connection keeps the others waiting.
  const ssize_t got = recv(fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (got == 0) return false;
  std::string_view bytes(buffer, static_cast<size_t>(got));
  while (auto frame = decoder_.Take(&bytes)) {
    if (!on_frame(std::move(*frame))) return false;
  }
  return !decoder_.is_broken();
}

}  // namespace millrace::inline batches
