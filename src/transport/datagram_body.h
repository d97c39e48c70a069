// What follows the prefix of a datagram, in all transports that have credits and probes.
// Numbers are little-endian.
#ifndef MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
#define MILLRACE_TRANSPORT_DATAGRAM_BODY_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "transport/datagram_link.h"

namespace millrace {

static_assert(std::endian::native == std::endian::little, "prefixes are copied as they are");

// All that follows the prefix of a credit or a probe, which are of one length: an answer is no
// longer than the question.
struct DatagramControl {
  uint64_t session = 0, echo = 0;  // as ControlMessage says
  uint32_t window = 0;             // of a credit; of a probe 0, ignored
  uint32_t reserved = 0;           // sent as 0, ignored

  DatagramControl() = default;
  explicit DatagramControl(const ControlMessage& message)
      : session(message.session), echo(message.echo), window(message.window) {}
};
static_assert(sizeof(DatagramControl) == 24);

// Reads `datagram->bytes`, which follow the prefix, as `datagram->kind` says, and fills in what
// a credit or a probe says. False if no endpoint sends such a datagram.
inline bool ParseDatagramBody(Datagram* datagram) {
  switch (datagram->kind) {
    case DatagramKind::kFrame:
      return true;
    case DatagramKind::kCredit:
    case DatagramKind::kProbe: {
      DatagramControl control;
      if (datagram->bytes.size() != sizeof(control)) return false;
      std::memcpy(&control, datagram->bytes.data(), sizeof(control));
      datagram->control = {datagram->sequence, control.session, control.echo, control.window};
      return true;
    }
  }
  return false;
}

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
