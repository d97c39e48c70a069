// Receives datagrams into preallocated buffers: several per system call and, if the kernel
// coalesces (GRO), several per buffer. The buffers form a ring; they are used and released in
// order. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_RECEIVER_H_
#define MILLRACE_TRANSPORT_UDP_RECEIVER_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/device.h"
#include "transport/udp/socket.h"

namespace millrace::inline transport {

// Contents of one buffer.
struct UdpArrival {
  const InetAddress* from;
  // Consecutive datagrams of `segment_bytes` each; the last may be shorter. Aligned to 8 bytes.
  std::span<const std::byte> bytes;
  size_t segment_bytes;
  bool truncated;     // the datagram was longer than the buffer
  uint64_t position;  // of the buffer in the ring
};

class UdpReceiver {
 public:
  // `socket` outlives the receiver. Throws Error if memory is short.
  UdpReceiver(UdpSocket* socket, size_t max_datagram_bytes, size_t buffers);

  // Reads pending datagrams into free buffers, with one system call. The next Read reuses the
  // buffers unless Keep() is called. Empty: no datagram is pending, or no buffer is free.
  std::span<const UdpArrival> Read();
  // Marks the buffers up to `position` as in use until GiveBack.
  void Keep(uint64_t position) { head_ = position + 1; }
  // Frees all buffers before `position`. If none remains in use, the next Read starts with the
  // first buffer, which is most likely in the cache.
  void GiveBack(uint64_t position) {
    tail_ = position;
    if (tail_ == head_) head_ = tail_ = 0;
  }
  // Memory of all buffers.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // Position at which the next Read starts.
  uint64_t head() const { return head_; }
  bool HasFree() const { return head_ - tail_ < buffers_; }
  // Datagrams that the kernel dropped since the last call because its queue was full or their
  // checksum was wrong, as far as the datagrams read so far report them.
  uint64_t TakeDrops();

 private:
  static constexpr size_t kBatch = 16;
  static constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t));

  void Prepare(size_t index);
  void Finish(size_t index, const mmsghdr& header);
  std::byte* BufferAt(uint64_t position) const {
    return memory_.get<std::byte>() + position % buffers_ * stride_;
  }

  UdpSocket* const socket_;
  const size_t stride_, buffers_;
  Buffer memory_;
  uint64_t head_ = 0, tail_ = 0;
  uint32_t drops_ = 0, drops_taken_ = 0;  // the kernel's counter, modulo 2^32
  std::array<mmsghdr, kBatch> headers_{};
  std::array<iovec, kBatch> pieces_{};
  std::array<InetAddress, kBatch> from_;
  std::array<UdpArrival, kBatch> arrivals_{};
  struct Control {
    alignas(cmsghdr) std::array<std::byte, kControlBytes> bytes{};
  };
  std::array<Control, kBatch> control_{};
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_RECEIVER_H_
