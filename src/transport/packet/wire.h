// Wire format of the packet transport, specified in docs/packet.md. Numbers are little-endian,
// except the EtherType.
#ifndef MILLRACE_TRANSPORT_PACKET_WIRE_H_
#define MILLRACE_TRANSPORT_PACKET_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "millrace/node_id.h"
#include "transport/datagram_body.h"
#include "transport/datagram_link.h"
#include "transport/network_device.h"

namespace millrace::inline transport {

// IEEE 802 Local Experimental EtherType 1.
inline constexpr uint16_t kPacketEtherType = 0x88b5;
inline constexpr uint8_t kPacketMagic = 0xd6;

struct EthernetHeader {
  MacAddress to, from;
  std::array<uint8_t, 2> ether_type{kPacketEtherType >> 8, kPacketEtherType & 0xff};
};
static_assert(sizeof(EthernetHeader) == 14);

// Follows the Ethernet header.
struct PacketPrefix {
  uint8_t magic = kPacketMagic;
  uint8_t kind = 0;    // DatagramKind
  uint16_t group = 0;  // cluster
  NodeId from = 0, to = 0;
  uint16_t tag = 0;       // of the sender's session id
  uint16_t bytes = 0;     // length after the prefix; the rest is padding
  uint32_t sequence = 0;  // see DatagramKind
};
static_assert(sizeof(PacketPrefix) == 16);

inline constexpr size_t kPacketPrefixBytes = sizeof(PacketPrefix);
inline constexpr size_t kPacketHeadBytes = sizeof(EthernetHeader) + kPacketPrefixBytes;

using PacketHead = std::array<std::byte, kPacketHeadBytes>;

inline PacketHead MakePacketHead(const EthernetHeader& ethernet, const PacketPrefix& prefix) {
  PacketHead head;
  std::memcpy(head.data(), &ethernet, sizeof(ethernet));
  std::memcpy(head.data() + sizeof(ethernet), &prefix, sizeof(prefix));
  return head;
}

// Parses a whole Ethernet frame, with or without padding. Fills in all of `datagram` except
// `peer` and `position`; its bytes are the part of `packet` after the prefix, without padding.
// Returns false if no endpoint of this version sends such a frame.
inline bool ParsePacket(std::span<const std::byte> packet, EthernetHeader* ethernet,
                        PacketPrefix* prefix, Datagram* datagram) {
  if (packet.size() < kPacketHeadBytes) return false;
  std::memcpy(ethernet, packet.data(), sizeof(*ethernet));
  std::memcpy(prefix, packet.data() + sizeof(*ethernet), sizeof(*prefix));
  const auto rest = packet.subspan(kPacketHeadBytes);
  if (ethernet->ether_type != EthernetHeader{}.ether_type) return false;
  if (prefix->magic != kPacketMagic || prefix->bytes > rest.size()) return false;
  datagram->kind = static_cast<DatagramKind>(prefix->kind);
  datagram->tag = prefix->tag;
  datagram->sequence = prefix->sequence;
  datagram->bytes = rest.first(prefix->bytes);
  return ParseDatagramBody(datagram);
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_PACKET_WIRE_H_
