#include "topology/frame_room.h"

#include "exchange/frame.h"
#include "exchange/view.h"
#include "transport/udp_wire.h"

namespace millrace {
namespace {

constexpr int64_t kIpv4AndUdpBytes = 20 + 8, kIpv6AndUdpBytes = 40 + 8;
// What the packet transport puts between the Ethernet header and a frame.
constexpr int64_t kRawEthernetPrefixBytes = 16;
// A heartbeat's payload before its view (docs/wire.md).
constexpr int64_t kStatusBytes = 32;

}  // namespace

int64_t FrameRoom(const std::string& transport, int64_t mtu, bool ipv4) {
  if (transport == "packet") return mtu - kRawEthernetPrefixBytes;
  if (transport != "udp") return mtu;
  const int64_t datagram = mtu - (ipv4 ? kIpv4AndUdpBytes : kIpv6AndUdpBytes);
  constexpr auto kAlign = static_cast<int64_t>(kUdpAlign);
  return datagram / kAlign * kAlign - static_cast<int64_t>(kUdpPrefixBytes);
}

int64_t PositionOverhead(uint16_t max_nodes, bool has_key) {
  return static_cast<int64_t>(kFrameHeaderBytes + 8 * AckWords(max_nodes)) +
         (has_key ? kSignatureBytes : 0);
}

int64_t HeartbeatBytes(uint16_t max_nodes, bool has_key) {
  return PositionOverhead(max_nodes, has_key) + kStatusBytes +
         static_cast<int64_t>(MaxViewBytes(max_nodes));
}

}  // namespace millrace
