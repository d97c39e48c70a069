// Datagrams out of the kernel, into buffers set aside when it was made: several
// with one call and, where the kernel coalesces (GRO), several in one buffer. The
// buffers form a ring, used and given back in order. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_RECEIVER_H_
#define MILLRACE_TRANSPORT_UDP_RECEIVER_H_

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "transport/udp/socket.h"

namespace millrace {

// What one buffer was filled with.
struct UdpArrival {
  const InetAddress* from;
  // Datagrams one behind the other, each of `segment_bytes`, but for the last, which
  // may be shorter. `bytes` begins on a multiple of 8 bytes.
  std::span<const std::byte> bytes;
  size_t segment_bytes;
  bool truncated;     // the datagram was longer than the buffer
  uint64_t position;  // of the buffer in the ring
};

class UdpReceiver {
 public:
  // `socket` outlives it. Throws Error if there is not enough memory.
  UdpReceiver(UdpSocket* socket, size_t most_datagram_bytes, size_t buffers);

  // Reads what is there, into as many free buffers as one call fills. They are
  // free for the next Read again unless Keep() is called. Empty: nothing is there,
  // or no buffer is free.
  std::span<const UdpArrival> Read();
  // The buffers up to this position are in use until GiveBack.
  void Keep(uint64_t position) { head_ = position + 1; }
  // All buffers before `position` are free again. If that is all there are, the next
  // Read begins with the first, which is the likeliest to be in the cache.
  void GiveBack(uint64_t position) {
    tail_ = position;
    if (tail_ == head_) head_ = tail_ = 0;
  }
  // All buffers.
  std::span<const std::byte> memory() const { return {memory_.get<std::byte>(), memory_.bytes()}; }
  // The position that the next Read begins with.
  uint64_t head() const { return head_; }
  bool HasFree() const { return head_ - tail_ < buffers_; }
  // Datagrams that the kernel dropped since the last call, as far as those that were read tell:
  // its queue was full, or their checksums were wrong.
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
  uint32_t drops_ = 0, drops_taken_ = 0;  // as the kernel counts: modulo 2^32
  std::array<mmsghdr, kBatch> headers_{};
  std::array<iovec, kBatch> pieces_{};
  std::array<InetAddress, kBatch> from_;
  std::array<UdpArrival, kBatch> arrivals_{};
  struct Control {
    alignas(cmsghdr) std::array<std::byte, kControlBytes> bytes{};
  };
  std::array<Control, kBatch> control_{};
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_RECEIVER_H_
