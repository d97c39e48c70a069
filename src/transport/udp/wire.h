// Wire format of the UDP transport, specified in docs/udp.md. All numbers are little-endian; the
// length of every datagram is a multiple of 8 bytes.
#ifndef MILLRACE_TRANSPORT_UDP_WIRE_H_
#define MILLRACE_TRANSPORT_UDP_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "transport/datagram_body.h"
#include "transport/datagram_link.h"

namespace millrace::inline transport {

static_assert(std::endian::native == std::endian::little, "prefixes are copied as they are");

inline constexpr uint8_t kUdpMagic = 0xd5;
inline constexpr size_t kUdpAlign = 8;

// First bytes of every datagram.
struct UdpPrefix {
  uint8_t magic = kUdpMagic;
  uint8_t kind_and_pad = 0;  // upper four bits: DatagramKind; lower four: bytes of padding, 0 to 7
  uint16_t tag = 0;          // of the sender's session id
  uint32_t sequence = 0;     // see DatagramKind

  DatagramKind kind() const { return static_cast<DatagramKind>(kind_and_pad >> 4); }
  size_t pad() const { return kind_and_pad & 15; }
};
static_assert(sizeof(UdpPrefix) == 8);
inline constexpr size_t kUdpPrefixBytes = sizeof(UdpPrefix);

inline UdpPrefix MakeUdpPrefix(DatagramKind kind, size_t pad, uint16_t tag, uint32_t sequence) {
  const auto byte = static_cast<uint8_t>(static_cast<uint8_t>(kind) << 4 | pad);
  return {kUdpMagic, byte, tag, sequence};
}

// A whole credit or probe.
struct UdpControl {
  UdpPrefix prefix;
  DatagramControl body;
};
static_assert(sizeof(UdpControl) == 32);

inline UdpControl MakeUdpControl(DatagramKind kind, const ControlMessage& message) {
  return {MakeUdpPrefix(kind, 0, TagOf(message.session), message.sequence),
          DatagramControl(message)};
}

// Bytes of padding after a frame of `frame_bytes`, to a multiple of kUdpAlign.
inline size_t UdpPad(size_t frame_bytes) { return -frame_bytes % kUdpAlign; }

// Parses a whole datagram. Fills in all of `datagram` except `peer` and `position`; its bytes
// follow the prefix, without padding. Returns false if no endpoint of this version sends such a
// datagram.
inline bool ParseUdpDatagram(std::span<const std::byte> bytes, Datagram* datagram) {
  if (bytes.size() < kUdpPrefixBytes || bytes.size() % kUdpAlign != 0) return false;
  UdpPrefix prefix;
  std::memcpy(&prefix, bytes.data(), kUdpPrefixBytes);
  if (prefix.magic != kUdpMagic) return false;
  if (prefix.pad() >= kUdpAlign || kUdpPrefixBytes + prefix.pad() > bytes.size()) return false;
  datagram->kind = prefix.kind();
  datagram->tag = prefix.tag;
  datagram->sequence = prefix.sequence;
  datagram->bytes = bytes.subspan(kUdpPrefixBytes, bytes.size() - kUdpPrefixBytes - prefix.pad());
  return ParseDatagramBody(datagram);
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_WIRE_H_
