// Wire format of the verbs transport, specified in docs/rdma.md. Numbers are little-endian.
#ifndef MILLRACE_TRANSPORT_VERBS_WIRE_H_
#define MILLRACE_TRANSPORT_VERBS_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "millrace/node_id.h"
#include "transport/datagram_body.h"
#include "transport/datagram_link.h"

namespace millrace::inline transport {

inline constexpr uint8_t kVerbsMagic = 0xd7;

// First bytes of every datagram.
struct VerbsPrefix {
  uint8_t magic = kVerbsMagic;
  uint8_t kind = 0;    // DatagramKind
  uint16_t group = 0;  // cluster
  NodeId from = 0;
  NodeId to = 0;          // kAllNodes: belongs to the stream to all peers
  uint16_t tag = 0;       // of the sender's session id for that stream
  uint16_t reserved = 0;  // sent as 0, ignored
  uint32_t sequence = 0;  // see DatagramKind
};
static_assert(sizeof(VerbsPrefix) == 16);

// Exchanged when nodes look each other up.
struct VerbsHello {
  uint32_t magic = 0x31767262;  // "brv1"
  uint16_t group = 0;           // cluster
  NodeId from = 0, to = 0;
  uint16_t joined = 0;          // 1: `from` has joined the multicast group of `to`
  uint32_t queue_pair = 0;      // of `from`
  uint32_t datagram_bytes = 0;  // largest datagram that `from` receives
};
static_assert(sizeof(VerbsHello) == 20);

// Parses a whole datagram. Fills in all of `datagram` except `peer` and `position`; its bytes
// follow the prefix. Returns false if no endpoint of this version sends such a datagram.
inline bool ParseVerbsDatagram(std::span<const std::byte> bytes, VerbsPrefix* prefix,
                               Datagram* datagram) {
  if (bytes.size() < sizeof(*prefix)) return false;
  std::memcpy(prefix, bytes.data(), sizeof(*prefix));
  if (prefix->magic != kVerbsMagic) return false;
  datagram->kind = static_cast<DatagramKind>(prefix->kind);
  datagram->tag = prefix->tag;
  datagram->sequence = prefix->sequence;
  datagram->to_all = prefix->to == kAllNodes;
  datagram->bytes = bytes.subspan(sizeof(*prefix));
  return ParseDatagramBody(datagram);
}

// Parses the data of a look-up; the buffer may be longer. Returns false if it is invalid.
inline bool ParseVerbsHello(std::span<const std::byte> bytes, VerbsHello* hello) {
  if (bytes.size() < sizeof(*hello)) return false;
  std::memcpy(hello, bytes.data(), sizeof(*hello));
  return hello->magic == VerbsHello{}.magic;
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_WIRE_H_
