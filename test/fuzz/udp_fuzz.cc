// Datagrams of any bytes for the UDP transport. A datagram is rejected, or its payload lies inside
// it; a credit or probe that is encoded again is unchanged. Also texts of any bytes in place of the
// kernel's counters.
#include <cstddef>
#include <cstring>
#include <memory>

#include "test/fuzz/support/fuzz.h"
#include "transport/udp/checksum_errors.h"
#include "transport/udp/wire.h"

namespace millrace::fuzz {
namespace {

template <typename Object>
std::string TextOf(const Object& object) {
  return {reinterpret_cast<const char*>(&object), sizeof(object)};
}

std::string FrameOf(size_t bytes) {
  const size_t pad = UdpPad(bytes);
  return TextOf(MakeUdpPrefix(DatagramKind::kFrame, pad, 3, 7)) + std::string(bytes, 'x') +
         std::string(pad, '\0');
}

bool IsSane(const Datagram& datagram, std::span<const std::byte> bytes) {
  const std::byte* const begin = bytes.data() + kUdpPrefixBytes;
  if (datagram.bytes.data() != begin) return false;
  if (begin + datagram.bytes.size() > bytes.data() + bytes.size()) return false;
  if (datagram.kind == DatagramKind::kFrame) {
    return kUdpPrefixBytes + datagram.bytes.size() + UdpPad(datagram.bytes.size()) == bytes.size();
  }
  if (bytes.size() != sizeof(UdpControl)) return false;
  UdpControl control = MakeUdpControl(datagram.kind, datagram.control);
  control.prefix.tag = datagram.tag;
  return std::memcmp(&control, bytes.data(), sizeof(control) - sizeof(uint32_t)) == 0;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {FrameOf(0),
          FrameOf(5),
          FrameOf(300),
          TextOf(MakeUdpControl(DatagramKind::kCredit, {7, 3, 5, 9})),
          TextOf(MakeUdpControl(DatagramKind::kProbe, {7, 3, 5, 0})),
          "Ip: A\nIp: 1\nUdp: InErrors RcvbufErrors InCsumErrors\nUdp: 9 4 5\n",
          "Ip6InReceives \t7\nUdp6RcvbufErrors \t4\nUdp6InCsumErrors \t5\n"};
}

bool Target(const std::string& input) {
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<std::byte[]> block(new std::byte[input.size()]);
  std::memcpy(block.get(), input.data(), input.size());
  for (const bool is_v6 : {false, true}) {
    ParseUdpErrors({reinterpret_cast<const char*>(block.get()), input.size()}, is_v6);
  }
  const std::span<const std::byte> bytes(block.get(), input.size());
  Datagram datagram;
  return !ParseUdpDatagram(bytes, &datagram) || IsSane(datagram, bytes);
}

}  // namespace millrace::fuzz
