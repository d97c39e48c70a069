// Datagrams on their way into the kernel: gathered from the memory of frames, sent
// with one call for all; frames to the same peer that fill datagrams of the same
// length become one message that the kernel or the device segments (GSO). Sends in
// order. All memory is set aside when it is made. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_BATCH_H_
#define MILLRACE_TRANSPORT_UDP_BATCH_H_

#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "transport/classify_send_error.h"
#include "transport/datagram_link.h"
#include "transport/udp/socket.h"
#include "transport/udp/wire.h"

namespace millrace {

class UdpBatch {
 public:
  static constexpr size_t kMostFrames = DatagramLink::kMostBatch;

  // `socket` outlives it. Datagrams above `segment_bytes` are not segments: they
  // would not fit the path.
  UdpBatch(UdpSocket* socket, size_t segment_bytes);

  // There must be room. The memory of `to` and of the frame is read by Flush.
  void Add(const InetAddress& to, const UdpPrefix& prefix, const OutFrame& frame);

  // Afterwards the batch is empty; frames that are not done with were not sent.
  DatagramLink::Flushed Flush();

  // Sends one short datagram; false if there is no room for it now.
  bool SendNow(const InetAddress& to, std::span<const std::byte> datagram);

 private:
  // Prefix, header, payload and padding of each.
  static constexpr size_t kPieces = 4;
  // Few enough for a message of packets of 1,500 bytes to pass a shaper whose burst is 64 KiB:
  // what is longer it takes apart again.
  static constexpr size_t kMostSegments = 32;

  struct Frame {
    UdpPrefix prefix;
    const InetAddress* to = nullptr;
    size_t bytes = 0;     // header and payload
    size_t datagram = 0;  // with prefix and padding
  };
  struct Message {
    size_t first = 0, count = 0;  // frames
    size_t bytes = 0;
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(uint16_t))> control{};
  };

  bool Extends(const Message& message, const Frame& frame) const;
  // Makes messages of frames [first, count_), put behind those there are.
  void Group(size_t first);
  void FillHeader(size_t index);
  // What to do about the first message, which failed with `error`.
  SendErrorClass Judge(int error, int* attempts);

  UdpSocket* const socket_;
  size_t segment_bytes_;
  size_t count_ = 0;
  std::array<Frame, kMostFrames> frames_;
  std::array<iovec, kMostFrames * kPieces> pieces_;
  size_t message_count_ = 0;
  std::array<Message, kMostFrames> messages_;
  std::array<mmsghdr, kMostFrames> headers_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_BATCH_H_
