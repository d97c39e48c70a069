#include "transport/packet/batch.h"

#include <cerrno>

#include "transport/socket_option.h"

namespace millrace::inline transport {
namespace {

iovec Piece(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

// `attempts` counts the failed attempts for one frame. An interface that went down leaves an
// error for the next call even if it is up again, so a first failure is retried.
SendErrorClass Classify(int error, int* attempts) {
  const SendErrorClass error_class = ClassifySendError(error);
  if (error_class != SendErrorClass::kFailed) return error_class;
  return ++*attempts < 2 ? SendErrorClass::kAgain : SendErrorClass::kFailed;
}

}  // namespace

void PacketBatch::Add(const PacketHead& head, const OutFrame& frame) {
  heads_[count_] = head;
  bytes_[count_] = frame.bytes();
  iovec* const pieces = &pieces_[count_ * kPieces];
  pieces[0] = Piece(heads_[count_]);
  pieces[1] = Piece(frame.header);
  pieces[2] = Piece(frame.payload);
  headers_[count_].msg_hdr.msg_iov = pieces;
  headers_[count_].msg_hdr.msg_iovlen = kPieces;
  ++count_;
}

DatagramLink::Flushed PacketBatch::Flush() {
  DatagramLink::Flushed result;
  int attempts = 0;
  while (result.frames < count_) {
    const int sent = sendmmsg(fd_, &headers_[result.frames],
                              static_cast<unsigned>(count_ - result.frames), MSG_DONTWAIT);
    if (sent >= 0) {
      result.frames += static_cast<size_t>(sent);
      attempts = 0;
      continue;
    }
    const int error = errno;
    const SendErrorClass error_class = Classify(error, &attempts);
    if (error_class == SendErrorClass::kBusy) {
      result.busy = true;
      result.of_device = error != EAGAIN;
      break;
    }
    if (error_class == SendErrorClass::kFailed) {
      ++result.failed;
      ++result.frames;
      attempts = 0;
    }
  }
  for (size_t i = 0; i < result.frames; ++i) result.bytes += bytes_[i];
  count_ = 0;
  return result;
}

bool PacketBatch::SendNow(const PacketHead& head, std::span<const std::byte> bytes) {
  iovec pieces[] = {Piece(head), Piece(bytes)};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  for (int attempts = 0;;) {
    if (sendmsg(fd_, &message, MSG_DONTWAIT) >= 0) return true;
    const SendErrorClass error_class = Classify(errno, &attempts);
    if (error_class == SendErrorClass::kBusy) return false;
    if (error_class == SendErrorClass::kFailed) return true;  // lost, as on any network
  }
}

}  // namespace millrace::inline transport
