// Ethernet frames of any bytes for the packet transport. A frame is rejected, or its payload lies
// inside it and has the length given by its prefix. A prefix that is encoded again is unchanged.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "test/fuzz/support/fuzz.h"
#include "transport/packet/wire.h"

namespace millrace::fuzz {
namespace {

std::string PacketOf(DatagramKind kind, size_t bytes, size_t padding) {
  EthernetHeader ethernet;
  ethernet.to.bytes = {2, 0, 0, 0, 0, 1};
  ethernet.from.bytes = {2, 0, 0, 0, 0, 2};
  PacketPrefix prefix;
  prefix.kind = static_cast<uint8_t>(kind);
  prefix.from = 1;
  prefix.bytes = static_cast<uint16_t>(bytes);
  prefix.sequence = 7;
  const PacketHead head = MakePacketHead(ethernet, prefix);
  return std::string(reinterpret_cast<const char*>(head.data()), head.size()) +
         std::string(bytes, 'x') + std::string(padding, '\0');
}

bool IsControlOf(const Datagram& datagram) {
  const DatagramControl again(datagram.control);
  return datagram.bytes.size() == sizeof(again) && datagram.control.sequence == datagram.sequence &&
         std::memcmp(&again, datagram.bytes.data(), offsetof(DatagramControl, reserved)) == 0;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {PacketOf(DatagramKind::kFrame, 0, 30),  PacketOf(DatagramKind::kFrame, 5, 25),
          PacketOf(DatagramKind::kFrame, 300, 0), PacketOf(DatagramKind::kCredit, 24, 6),
          PacketOf(DatagramKind::kProbe, 24, 6),  PacketOf(DatagramKind::kProbe, 24, 0)};
}

bool Target(const std::string& input) {
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<std::byte[]> block(new std::byte[input.size()]);
  std::memcpy(block.get(), input.data(), input.size());
  const std::span<const std::byte> packet(block.get(), input.size());
  EthernetHeader ethernet;
  PacketPrefix prefix;
  Datagram datagram;
  if (!ParsePacket(packet, &ethernet, &prefix, &datagram)) return true;
  const std::byte* const begin = packet.data() + kPacketHeadBytes;
  if (datagram.bytes.data() != begin || datagram.bytes.size() != prefix.bytes) return false;
  if (begin + datagram.bytes.size() > packet.data() + packet.size()) return false;
  if (datagram.kind != DatagramKind::kFrame && !IsControlOf(datagram)) return false;
  const PacketHead again = MakePacketHead(ethernet, prefix);
  return std::memcmp(again.data(), packet.data(), again.size()) == 0;
}

}  // namespace millrace::fuzz
