// A batch of outgoing Ethernet frames: gathers them from the caller's memory and sends them in
// order with one system call, through the interface's queue (so that traffic shaping applies).
// All memory is allocated at construction. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_PACKET_BATCH_H_
#define MILLRACE_TRANSPORT_PACKET_BATCH_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <span>

#include "transport/datagram_link.h"
#include "transport/packet/wire.h"

namespace millrace::inline transport {

class PacketBatch {
 public:
  static constexpr size_t kMaxFrames = DatagramLink::kMaxBatch;

  // `fd`: a bound packet socket that outlives the batch.
  explicit PacketBatch(int fd) : fd_(fd) {}

  // Requires fewer than kMaxFrames frames in the batch. The frame's memory must stay valid until
  // Flush returns.
  void Add(const PacketHead& head, const OutFrame& frame);
  // Sends the frames and empties the batch. Frames that it did not process were not sent.
  DatagramLink::Flushed Flush();
  // Sends one frame at once. Returns false if there is no room now.
  bool SendNow(const PacketHead& head, std::span<const std::byte> bytes);

 private:
  static constexpr size_t kPieces = 3;  // head, header, payload

  const int fd_;
  size_t count_ = 0;
  std::array<PacketHead, kMaxFrames> heads_;
  std::array<size_t, kMaxFrames> bytes_;  // header and payload
  std::array<iovec, kMaxFrames * kPieces> pieces_;
  std::array<mmsghdr, kMaxFrames> headers_{};
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_BATCH_H_
