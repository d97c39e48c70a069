#include "transport/udp/receiver.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/threads/cache_line.h"

namespace millrace::inline transport {
namespace {

// Maximum bytes that the kernel coalesces: one IP packet.
constexpr size_t kCoalescedBytes = 1 << 16;

size_t StrideFor(const UdpSocket& socket, size_t max_datagram_bytes) {
  const size_t bytes = socket.gro() ? kCoalescedBytes : max_datagram_bytes;
  return WholeCacheLines(bytes);
}

}  // namespace

UdpReceiver::UdpReceiver(UdpSocket* socket, size_t max_datagram_bytes, size_t buffers)
    : socket_(socket),
      stride_(StrideFor(*socket, max_datagram_bytes)),
      buffers_(buffers),
      memory_(HostMemory(), stride_ * buffers) {}

std::span<const UdpArrival> UdpReceiver::Read() {
  const size_t most = std::min<size_t>(kBatch, buffers_ - (head_ - tail_));
  if (most == 0) return {};
  for (size_t i = 0; i < most; ++i) Prepare(i);
  // An ICMP error concerns an earlier send; clear it and retry.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const int count = recvmmsg(socket_->fd(), headers_.data(), most, MSG_DONTWAIT, nullptr);
    if (count >= 0) {
      for (int i = 0; i < count; ++i) Finish(i, headers_[i]);
      return {arrivals_.data(), static_cast<size_t>(count)};
    }
    if (errno == EAGAIN) break;
    if (errno != EINTR) socket_->ForgetErrors();
  }
  return {};
}

void UdpReceiver::Prepare(size_t index) {
  pieces_[index] = {BufferAt(head_ + index), stride_};
  msghdr& header = headers_[index].msg_hdr;
  header.msg_name = &from_[index].any;
  header.msg_namelen = sizeof(from_[index].v6);
  header.msg_iov = &pieces_[index];
  header.msg_iovlen = 1;
  header.msg_control = control_[index].bytes.data();
  header.msg_controllen = kControlBytes;
  header.msg_flags = 0;
}

void UdpReceiver::Finish(size_t index, const mmsghdr& header) {
  UdpArrival& arrival = arrivals_[index];
  arrival.from = &from_[index];
  arrival.position = head_ + index;
  arrival.bytes = {BufferAt(arrival.position), header.msg_len};
  arrival.segment_bytes = header.msg_len;
  arrival.truncated = header.msg_hdr.msg_flags & MSG_TRUNC;
  msghdr* message = const_cast<msghdr*>(&header.msg_hdr);
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_GRO) {
      int bytes = 0;
      std::memcpy(&bytes, CMSG_DATA(part), sizeof(bytes));
      if (bytes > 0) arrival.segment_bytes = bytes;
    } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_RXQ_OVFL) {
      std::memcpy(&drops_, CMSG_DATA(part), sizeof(drops_));
    }
  }
}

uint64_t UdpReceiver::TakeDrops() {
  const uint32_t count = drops_ - drops_taken_;
  drops_taken_ = drops_;
  return count;
}

}  // namespace millrace::inline transport
