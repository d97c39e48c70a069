#include "transport/udp/batch.h"

#include <netinet/udp.h>

#include <cerrno>

namespace millrace::inline transport {
namespace {

constexpr std::byte kPadding[kUdpAlign] = {};
// Attempts per message: ICMP may leave an error on the socket between any two.
constexpr int kMaxAttempts = 8;

iovec Piece(const void* data, size_t bytes) { return {const_cast<void*>(data), bytes}; }

}  // namespace

UdpBatch::UdpBatch(UdpSocket* socket, size_t segment_bytes)
    : socket_(socket), segment_bytes_(socket->gso() ? segment_bytes : 0) {}

void UdpBatch::Add(const InetAddress& to, const UdpPrefix& prefix, const OutFrame& frame) {
  Frame& slot = frames_[count_];
  slot.prefix = prefix;
  slot.to = &to;
  slot.bytes = frame.bytes();
  slot.datagram = kUdpPrefixBytes + frame.bytes() + prefix.pad();
  iovec* pieces = &pieces_[count_ * kPieces];
  pieces[0] = Piece(&slot.prefix, kUdpPrefixBytes);
  pieces[1] = Piece(frame.header.data(), frame.header.size());
  pieces[2] = Piece(frame.payload.data(), frame.payload.size());
  pieces[3] = Piece(kPadding, prefix.pad());
  ++count_;
}

bool UdpBatch::Extends(const Message& message, const Frame& frame) const {
  const Frame& first = frames_[message.first];
  const Frame& last = frames_[message.first + message.count - 1];
  // All segments have the length of the first; the last may be shorter.
  return frame.to == first.to && first.datagram <= segment_bytes_ &&
         last.datagram == first.datagram && frame.datagram <= first.datagram &&
         message.count < kMaxSegments &&
         message.bytes + frame.datagram <= kMaxUdpPayloadBytes - kUdpAlign;
}

void UdpBatch::Group(size_t first) {
  message_count_ = 0;
  for (size_t i = first; i < count_; ++i) {
    Message* last = message_count_ ? &messages_[message_count_ - 1] : nullptr;
    if (!last || !Extends(*last, frames_[i])) {
      last = &messages_[message_count_++];
      last->first = i;
      last->count = last->bytes = 0;
    }
    ++last->count;
    last->bytes += frames_[i].datagram;
  }
  for (size_t i = 0; i < message_count_; ++i) FillHeader(i);
}

void UdpBatch::FillHeader(size_t index) {
  Message& message = messages_[index];
  const Frame& first = frames_[message.first];
  msghdr& header = headers_[index].msg_hdr;
  header = {};
  header.msg_name = const_cast<sockaddr*>(&first.to->any);
  header.msg_namelen = first.to->length();
  header.msg_iov = &pieces_[message.first * kPieces];
  header.msg_iovlen = message.count * kPieces;
  if (message.count == 1) return;
  header.msg_control = message.control.data();
  header.msg_controllen = message.control.size();
  cmsghdr* segment = CMSG_FIRSTHDR(&header);
  segment->cmsg_level = IPPROTO_UDP;
  segment->cmsg_type = UDP_SEGMENT;
  segment->cmsg_len = CMSG_LEN(sizeof(uint16_t));
  const auto bytes = static_cast<uint16_t>(first.datagram);
  std::memcpy(CMSG_DATA(segment), &bytes, sizeof(bytes));
}

SendErrorClass UdpBatch::Classify(int error, int* attempts) {
  const SendErrorClass error_class = ClassifySendError(error);
  if (error_class != SendErrorClass::kFailed) return error_class;
  // The error may concern an earlier datagram to another peer.
  socket_->ForgetErrors();
  return ++*attempts < kMaxAttempts ? SendErrorClass::kAgain : SendErrorClass::kFailed;
}

DatagramLink::Flushed UdpBatch::Flush() {
  DatagramLink::Flushed result;
  size_t sent = 0;  // messages
  int attempts = 0;
  const auto finish = [&](size_t messages, bool failed) {
    for (const size_t end = sent + messages; sent < end; ++sent) {
      const Message& message = messages_[sent];
      result.frames += message.count;
      result.failed += failed ? message.count : 0;
    }
    attempts = 0;
  };
  Group(0);
  while (sent < message_count_) {
    const int count = sendmmsg(socket_->fd(), &headers_[sent], message_count_ - sent, 0);
    const int error = errno;
    if (count >= 0) {
      finish(count, false);
    } else if (messages_[sent].count > 1 && (error == EINVAL || error == EIO)) {
      // This path does not support segmentation, although the socket accepted the option.
      segment_bytes_ = 0;
      Group(result.frames);
      sent = 0;
    } else {
      const SendErrorClass error_class = Classify(error, &attempts);
      if (error_class == SendErrorClass::kFailed) finish(1, true);
      if (error_class != SendErrorClass::kBusy) continue;
      result.busy = true;
      result.of_device = error != EAGAIN;
      break;
    }
  }
  for (size_t i = 0; i < result.frames; ++i) result.bytes += frames_[i].bytes;
  count_ = 0;
  return result;
}

bool UdpBatch::SendNow(const InetAddress& to, std::span<const std::byte> datagram) {
  for (int attempts = 0;;) {
    const ssize_t sent =
        sendto(socket_->fd(), datagram.data(), datagram.size(), 0, &to.any, to.length());
    if (sent >= 0) return true;
    const SendErrorClass error_class = Classify(errno, &attempts);
    if (error_class == SendErrorClass::kBusy) return false;
    if (error_class == SendErrorClass::kFailed) return true;  // lost, as on any network
  }
}

}  // namespace millrace::inline transport
