// A batch of outgoing datagrams: gathers them from the caller's memory and sends them in order
// with one system call. Consecutive datagrams of the same length to the same peer form one
// message that the kernel or the device segments (GSO). All memory is allocated at construction.
// Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_BATCH_H_
#define MILLRACE_TRANSPORT_UDP_BATCH_H_

#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "transport/datagram_link.h"
#include "transport/socket_option.h"
#include "transport/udp/socket.h"
#include "transport/udp/wire.h"

namespace millrace::inline transport {

class UdpBatch {
 public:
  static constexpr size_t kMaxFrames = DatagramLink::kMaxBatch;

  // `socket` outlives the batch. Datagrams longer than `segment_bytes` are not sent as segments,
  // since they do not fit the path.
  UdpBatch(UdpSocket* socket, size_t segment_bytes);

  // Requires fewer than kMaxFrames frames in the batch. `to` and the frame's memory must stay
  // valid until Flush returns.
  void Add(const InetAddress& to, const UdpPrefix& prefix, const OutFrame& frame);

  // Sends the datagrams and empties the batch. Frames that it did not process were not sent.
  DatagramLink::Flushed Flush();

  // Sends one short datagram at once. Returns false if there is no room now.
  bool SendNow(const InetAddress& to, std::span<const std::byte> datagram);

 private:
  // Prefix, header, payload and padding of a datagram.
  static constexpr size_t kPieces = 4;
  // Keeps a message of 1500-byte packets below 64 KiB: a traffic shaper with a burst of that size
  // splits longer messages.
  static constexpr size_t kMaxSegments = 32;

  struct Frame {
    UdpPrefix prefix;
    const InetAddress* to = nullptr;
    size_t bytes = 0;     // header and payload
    size_t datagram = 0;  // `bytes` plus prefix and padding
  };
  struct Message {
    size_t first = 0, count = 0;  // frames
    size_t bytes = 0;
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(uint16_t))> control{};
  };

  bool Extends(const Message& message, const Frame& frame) const;
  // Rebuilds the messages from frames [first, count_).
  void Group(size_t first);
  void FillHeader(size_t index);
  // Classifies `error` of the first unsent message and counts the attempt.
  SendErrorClass Classify(int error, int* attempts);

  UdpSocket* const socket_;
  size_t segment_bytes_;
  size_t count_ = 0;
  std::array<Frame, kMaxFrames> frames_;
  std::array<iovec, kMaxFrames * kPieces> pieces_;
  size_t message_count_ = 0;
  std::array<Message, kMaxFrames> messages_;
  std::array<mmsghdr, kMaxFrames> headers_;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_BATCH_H_
