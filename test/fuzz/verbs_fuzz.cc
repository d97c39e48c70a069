// Datagrams and hello messages of any bytes for the verbs transport. One is rejected, or its
// payload is the data after its prefix.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "test/fuzz/support/fuzz.h"
#include "transport/verbs/wire.h"

namespace millrace::fuzz {
namespace {

template <typename Object>
std::string TextOf(const Object& object) {
  return {reinterpret_cast<const char*>(&object), sizeof(object)};
}

std::string DatagramOf(DatagramKind kind, NodeId to, const std::string& rest) {
  VerbsPrefix prefix;
  prefix.kind = static_cast<uint8_t>(kind);
  prefix.from = 1;
  prefix.to = to;
  prefix.sequence = 7;
  return TextOf(prefix) + rest;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {DatagramOf(DatagramKind::kFrame, 0, ""),
          DatagramOf(DatagramKind::kFrame, kAllNodes, std::string(300, 'x')),
          DatagramOf(DatagramKind::kCredit, 0, TextOf(DatagramControl({7, 3, 5, 9}))),
          DatagramOf(DatagramKind::kProbe, 0, TextOf(DatagramControl({7, 3, 5, 0}))),
          DatagramOf(DatagramKind::kProbe, kAllNodes, TextOf(DatagramControl({7, 3, 0, 0}))),
          TextOf(VerbsHello{})};
}

bool Target(const std::string& input) {
  // An exact-size block, so that a sanitizer detects any read beyond it.
  const std::unique_ptr<std::byte[]> block(new std::byte[input.size()]);
  std::memcpy(block.get(), input.data(), input.size());
  const std::span<const std::byte> bytes(block.get(), input.size());
  VerbsHello hello;
  if (ParseVerbsHello(bytes, &hello) && std::memcmp(&hello, bytes.data(), sizeof(hello)) != 0) {
    return false;
  }
  VerbsPrefix prefix;
  Datagram datagram;
  if (!ParseVerbsDatagram(bytes, &prefix, &datagram)) return true;
  if (datagram.bytes.data() != bytes.data() + sizeof(prefix)) return false;
  if (datagram.bytes.size() != bytes.size() - sizeof(prefix)) return false;
  if (datagram.to_all != (prefix.to == kAllNodes)) return false;
  if (datagram.kind != DatagramKind::kFrame && datagram.bytes.size() != sizeof(DatagramControl)) {
    return false;
  }
  return std::memcmp(&prefix, bytes.data(), sizeof(prefix)) == 0;
}

}  // namespace millrace::fuzz
