// The datagrams of the UDP transport, byte by byte as docs/udp.md has them. All
// numbers are little-endian; every datagram is a multiple of 8 bytes long.
#ifndef MILLRACE_TRANSPORT_UDP_WIRE_H_
#define MILLRACE_TRANSPORT_UDP_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/datagram_link.h"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "prefixes are copied as they are");

inline constexpr uint8_t kUdpMagic = 0xd5;
inline constexpr size_t kUdpAlign = 8;

// What every datagram begins with.
struct UdpPrefix {
  uint8_t magic = kUdpMagic;
  uint8_t kind_and_pad = 0;  // upper four bits: DatagramKind; lower four: bytes of padding, 0 to 7
  uint16_t session = 0;      // the sender's, drawn when its endpoint was made
  uint32_t sequence = 0;     // kFrame: its number; kProbe: the last number used;
                             // kCredit: the last number that is done with

  DatagramKind kind() const { return static_cast<DatagramKind>(kind_and_pad >> 4); }
  size_t pad() const { return kind_and_pad & 15; }
};
static_assert(sizeof(UdpPrefix) == 8);
inline constexpr size_t kUdpPrefixBytes = sizeof(UdpPrefix);

// A credit goes on after its prefix.
struct UdpCredit {
  UdpPrefix prefix;
  uint16_t stream = 0;    // the session whose frames are counted
  uint16_t reserved = 0;  // sent as 0, ignored
  uint32_t window = 0;    // frames that may be unconfirmed
};
static_assert(sizeof(UdpCredit) == 16);

inline UdpPrefix MakeUdpPrefix(DatagramKind kind, size_t pad, uint16_t session, uint32_t sequence) {
  const auto byte = static_cast<uint8_t>(static_cast<uint8_t>(kind) << 4 | pad);
  return {kUdpMagic, byte, session, sequence};
}

// How many bytes make `frame_bytes` a whole number of words.
inline size_t UdpPad(size_t frame_bytes) { return -frame_bytes % kUdpAlign; }

// False if no endpoint of this version sends such a datagram.
inline bool ParseUdpPrefix(std::span<const std::byte> datagram, UdpPrefix* prefix) {
  if (datagram.size() < kUdpPrefixBytes || datagram.size() % kUdpAlign != 0) return false;
  std::memcpy(prefix, datagram.data(), kUdpPrefixBytes);
  if (prefix->magic != kUdpMagic) return false;
  switch (prefix->kind()) {
    case DatagramKind::kFrame:
      return prefix->pad() < kUdpAlign && kUdpPrefixBytes + prefix->pad() <= datagram.size();
    case DatagramKind::kCredit:
      return prefix->pad() == 0 && datagram.size() == sizeof(UdpCredit);
    case DatagramKind::kProbe:
      return prefix->pad() == 0 && datagram.size() == kUdpPrefixBytes;
  }
  return false;
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_WIRE_H_
