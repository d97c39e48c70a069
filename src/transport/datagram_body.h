// What follows a datagram's prefix, where prefixes say its kind: the packet and the verbs
// transport. Numbers are little-endian.
#ifndef MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
#define MILLRACE_TRANSPORT_DATAGRAM_BODY_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "transport/datagram_link.h"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "prefixes are copied as they are");

// All that follows the prefix of a credit.
struct DatagramCredit {
  uint16_t stream = 0;    // the session whose frames are counted
  uint16_t reserved = 0;  // sent as 0, ignored
  uint32_t window = 0;    // frames that may be unconfirmed
};
static_assert(sizeof(DatagramCredit) == 8);

// Reads `datagram->bytes`, which follow the prefix, as `datagram->kind` says, and fills in what
// a credit says. False if no endpoint sends such a datagram.
inline bool ParseDatagramBody(Datagram* datagram) {
  switch (datagram->kind) {
    case DatagramKind::kFrame:
      return true;
    case DatagramKind::kCredit: {
      DatagramCredit credit;
      if (datagram->bytes.size() != sizeof(credit)) return false;
      std::memcpy(&credit, datagram->bytes.data(), sizeof(credit));
      datagram->stream = credit.stream;
      datagram->window = credit.window;
      return true;
    }
    case DatagramKind::kProbe:
      return datagram->bytes.empty();
  }
  return false;
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
