// Ethernet frames on their way into the kernel: gathered from the memory of frames,
// sent with one call for all, through the interface's queue (so that traffic shaping
// holds). Sends in order. All memory is set aside when it is made. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_PACKET_BATCH_H_
#define MILLRACE_TRANSPORT_PACKET_BATCH_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <span>

#include "transport/datagram_link.h"
#include "transport/packet/wire.h"

namespace millrace {

class PacketBatch {
 public:
  static constexpr size_t kMostFrames = DatagramLink::kMostBatch;

  // `fd` is a bound packet socket that outlives it.
  explicit PacketBatch(int fd) : fd_(fd) {}

  // There must be room. The frame's memory is read by Flush.
  void Add(const PacketHead& head, const OutFrame& frame);
  // Afterwards the batch is empty; frames that are not done with were not sent.
  DatagramLink::Flushed Flush();
  // Sends one frame at once; false if there is no room for it now.
  bool SendNow(const PacketHead& head, std::span<const std::byte> bytes);

 private:
  static constexpr size_t kPieces = 3;  // head, header, payload

  const int fd_;
  size_t count_ = 0;
  std::array<PacketHead, kMostFrames> heads_;
  std::array<size_t, kMostFrames> bytes_;  // header and payload
  std::array<iovec, kMostFrames * kPieces> pieces_;
  std::array<mmsghdr, kMostFrames> headers_{};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_PACKET_BATCH_H_
