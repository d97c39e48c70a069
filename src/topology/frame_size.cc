#include "topology/frame_size.h"

#include "exchange/protocol/exchange.h"
#include "segment/auth/frame_auth.h"
#include "segment/net_segment.h"
#include "transport/inet_address.h"
#include "transport/packet/wire.h"
#include "transport/udp/wire.h"
#include "transport/verbs/wire.h"

namespace millrace {
namespace {

// The RDMA path MTU: the largest of 256, 512, 1024, 2048 and 4096 bytes that fits into an Ethernet
// packet of `mtu` bytes with its headers; at least 256.
int64_t RdmaMtu(int64_t mtu) {
  constexpr int64_t kLeast = 256, kMost = 4096, kHeaders = 80;
  int64_t bytes = kMost;
  while (bytes > kLeast && bytes > mtu - kHeaders) bytes /= 2;
  return bytes;
}

// The settings on which the lengths of frames depend.
ExchangeConfig ExchangeOf(const FrameUse& use) {
  ExchangeConfig config;
  config.max_nodes = use.max_nodes;
  config.max_members = use.members;
  config.trailer_bytes = use.has_key ? kFrameTagBytes : 0;
  return config;
}

}  // namespace

int64_t FrameSize(const std::string& transport, int64_t mtu, bool ipv4) {
  if (transport == "packet") return mtu - static_cast<int64_t>(kPacketPrefixBytes);
  if (transport == "verbs") return RdmaMtu(mtu) - static_cast<int64_t>(sizeof(VerbsPrefix));
  if (transport != "udp") return mtu;
  const size_t headers = ipv4 ? kIpv4UdpBytes : kIpv6UdpBytes;
  const int64_t datagram = mtu - static_cast<int64_t>(headers);
  constexpr auto kAlign = static_cast<int64_t>(kUdpAlign);
  return datagram / kAlign * kAlign - static_cast<int64_t>(kUdpPrefixBytes);
}

int64_t HeartbeatBytes(const FrameUse& use) {
  // Exceeds the frame of a single float for any number of nodes.
  return static_cast<int64_t>(MaxFrameBytes(ExchangeOf(use), {.size = 1, .chunk_floats = 1}));
}

int64_t ChunkFloatsIn(int64_t room, const FrameUse& use) {
  if (room < 0) return 0;
  return ChunkFloatsFor(static_cast<size_t>(room), ExchangeOf(use));
}

}  // namespace millrace
