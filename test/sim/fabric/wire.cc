#include "test/sim/fabric/wire.h"

#include <algorithm>

#include "base/error.h"
#include "transport/datagram_body.h"
#include "transport/inet_address.h"
#include "transport/udp/wire.h"
#include "transport/verbs/wire.h"

namespace millrace::sim {
namespace {

// IEEE 802.3: preamble with start-of-frame delimiter, header, checksum, gap. A minimum frame
// occupies 84 bytes of the line, preamble and gap included.
constexpr int64_t kEthernetBytes = 8 + 14 + 4 + 12, kMinEthernetBytes = 84;
// InfiniBand Architecture, volume 1: base transport header, datagram extended transport header,
// invariant CRC. RoCE v2 has the same after a UDP header.
constexpr int64_t kTransportBytes = 12 + 8 + 4;
// Local and global route headers, variant CRC.
constexpr int64_t kInfinibandBytes = 8 + 40 + 2;

Wire VerbsWire() {
  Wire wire;
  wire.prefix_bytes = sizeof(VerbsPrefix);
  wire.credit_bytes = sizeof(DatagramControl);
  wire.max_frame_bytes = 4096 - wire.prefix_bytes;
  wire.multicasts = true;
  return wire;
}

}  // namespace

int64_t Wire::Datagram(int64_t bytes) const {
  const int64_t whole = (bytes + align - 1) / align * align;
  return std::max(whole + around_bytes, min_bytes);
}

int64_t Wire::BytesOf(int64_t frame_bytes) const {
  const int64_t full = std::max<int64_t>(frame_bytes - 1, 0) / max_frame_bytes;
  return full * Datagram(prefix_bytes + max_frame_bytes) +
         Datagram(prefix_bytes + frame_bytes - full * max_frame_bytes);
}

Wire RoceWire() {
  Wire wire = VerbsWire();
  wire.name = "roce";
  wire.around_bytes = kEthernetBytes + static_cast<int64_t>(kIpv4UdpBytes) + kTransportBytes;
  wire.min_bytes = kMinEthernetBytes;
  return wire;
}

Wire InfinibandWire() {
  Wire wire = VerbsWire();
  wire.name = "infiniband";
  wire.around_bytes = kInfinibandBytes + kTransportBytes;
  return wire;
}

Wire UdpWire() {
  Wire wire;
  wire.name = "udp";
  wire.prefix_bytes = kUdpPrefixBytes;
  wire.align = kUdpAlign;
  wire.credit_bytes = sizeof(DatagramControl);
  wire.around_bytes = kEthernetBytes + static_cast<int64_t>(kIpv4UdpBytes);
  wire.min_bytes = kMinEthernetBytes;
  wire.max_frame_bytes =
      (9000 - static_cast<int64_t>(kIpv4UdpBytes)) / wire.align * wire.align - wire.prefix_bytes;
  return wire;
}

Wire WireNamed(const std::string& name) {
  for (const Wire& wire : {RoceWire(), InfinibandWire(), UdpWire()}) {
    if (wire.name == name) return wire;
  }
  throw Error("wire \"", name, "\": expected roce, infiniband or udp");
}

}  // namespace millrace::sim
