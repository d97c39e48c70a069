// Datagrams on their way into the kernel: gathered from the memory of frames, sent
// with one call for all; frames to the same peer that fill datagrams of the same
// length become one message that the kernel or the device segments (GSO). Sends in
// order. All memory is set aside when it is made. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_BATCH_H_
#define MILLRACE_TRANSPORT_UDP_BATCH_H_

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <vector>

#include "transport/transport.h"
#include "transport/udp_socket.h"
#include "transport/udp_wire.h"

namespace millrace {

class UdpBatch {
 public:
  static constexpr size_t kMostFrames = 128;

  // `socket` outlives it. Datagrams above `segment_bytes` are not segments: they
  // would not fit the path.
  UdpBatch(UdpSocket* socket, size_t segment_bytes);

  bool full() const { return count_ == kMostFrames; }
  size_t size() const { return count_; }
  // The peer of each frame, as Add was told.
  size_t peer(size_t index) const { return frames_[index].peer; }

  // There must be room. The memory of `to` and of the frame is read by Flush.
  void Add(const UdpAddress& to, size_t peer, const UdpPrefix& prefix, const OutFrame& frame);

  struct Flushed {
    size_t frames = 0;       // so many from the front are done with ...
    size_t failed = 0;       // ... of which the kernel would not send these
    size_t bytes = 0;        // headers and payloads of `frames`
    bool busy = false;       // the others met a full queue:
    bool of_device = false;  // the device's, which says nothing when there is room
  };
  // Afterwards the batch is empty; frames that are not done with were not sent.
  Flushed Flush();

  // Sends one short datagram; false if there is no room for it now.
  bool SendNow(const UdpAddress& to, std::span<const std::byte> datagram);

 private:
  // Prefix, header, payload and padding of each.
  static constexpr size_t kPieces = 4;
  static constexpr size_t kMostSegments = 64;

  struct Frame {
    UdpPrefix prefix;
    const UdpAddress* to = nullptr;
    size_t peer = 0;
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
  enum class Verdict { kAgain, kBusy, kFailed };
  Verdict Judge(int error, int* attempts);

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
