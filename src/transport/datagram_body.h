// Datagram contents after the prefix, common to all transports with credits and probes. Numbers
// are little-endian.
#ifndef MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
#define MILLRACE_TRANSPORT_DATAGRAM_BODY_H_

#include <bit>
#include <cstdint>
#include <cstring>

#include "transport/datagram_link.h"

namespace millrace::inline transport {

static_assert(std::endian::native == std::endian::little, "prefixes are copied as they are");

// Body of a credit or a probe. Both have the same length, so that a reply is never longer than
// the request.
struct DatagramControl {
  uint64_t session = 0, echo = 0;  // see ControlMessage
  uint32_t window = 0;             // in a credit; in a probe 0, ignored
  uint32_t reserved = 0;           // sent as 0, ignored

  DatagramControl() = default;
  explicit DatagramControl(const ControlMessage& message)
      : session(message.session), echo(message.echo), window(message.window) {}
};
static_assert(sizeof(DatagramControl) == 24);

// Parses `datagram->bytes`, the bytes after the prefix, according to `datagram->kind`. Fills in
// `datagram->control` for a credit or a probe. Returns false if no endpoint sends such a
// datagram.
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

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_DATAGRAM_BODY_H_
