#include "bench/udp_bench/raw.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

namespace udp_bench {
namespace {

constexpr size_t kBatch = 32, kMaxSegments = 64, kMaxPayload = 65507, kCoalesced = 1 << 16;

void SetInt(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof(value));
}

struct Messages {
  Messages(size_t count, size_t bytes) : memory(count * bytes), pieces(count), headers(count) {
    for (size_t i = 0; i < count; ++i) {
      pieces[i] = {memory.data() + i * bytes, bytes};
      headers[i].msg_hdr.msg_iov = &pieces[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
  }
  std::vector<char> memory;
  std::vector<iovec> pieces;
  std::vector<mmsghdr> headers;
};

}  // namespace

void SendRaw(int fd, size_t bytes, bool segmented, const std::atomic<bool>& stop) {
  const size_t segments = segmented ? std::min(kMaxSegments, kMaxPayload / bytes) : 1;
  Messages messages(segmented ? 1 : kBatch, segments * bytes);
  if (segmented) SetInt(fd, IPPROTO_UDP, UDP_SEGMENT, static_cast<int>(bytes));
  while (!stop) sendmmsg(fd, messages.headers.data(), messages.headers.size(), 0);
}

void ReceiveRaw(int fd, size_t bytes, bool coalesced, std::atomic<uint64_t>* received,
                const std::atomic<bool>& stop) {
  Messages messages(coalesced ? 4 : kBatch, coalesced ? kCoalesced : bytes);
  if (coalesced) SetInt(fd, IPPROTO_UDP, UDP_GRO, 1);
  while (!stop) {
    const int count =
        recvmmsg(fd, messages.headers.data(), messages.headers.size(), MSG_WAITFORONE, nullptr);
    uint64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += messages.headers[i].msg_len;
    *received += sum;
  }
}

}  // namespace udp_bench
