// Wire format of handshake messages: 208 bytes, little-endian (docs/handshake.md). The functions
// keep no state. Decoding accepts bytes of any content.
#ifndef MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_
#define MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/drop_reason.h"
#include "exchange/protocol/frame.h"
#include "millrace/node_id.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline segment {

inline constexpr uint32_t kHandshakeMagic = 0x49524c4d;  // "MLRI"
inline constexpr uint8_t kHandshakeVersion = 3;
inline constexpr size_t kNodeNameBytes = 64;     // maximum length of a name
inline constexpr size_t kHandshakeBytes = 208;   // tag included
inline constexpr size_t kHandshakeTagged = 192;  // bytes that the tag covers

using HandshakeBytes = std::array<std::byte, kHandshakeBytes>;

// Settings that must be equal on two nodes for their exchanges to interoperate.
struct CompatibilityInfo {
  uint8_t frame_version = kFrameVersion;
  uint16_t max_nodes = 0;
  uint32_t chunk_floats = 0;
  uint64_t parameters = 0;       // floats of the weight array
  uint32_t layout_digest = 0;    // Folded(ParamLayout::Digest())
  uint32_t max_iter = 0;         // length of the schedule; 0: none, which fits to any
  uint64_t topology_digest = 0;  // of the topology's text
  bool operator==(const CompatibilityInfo&) const = default;
};

struct HandshakeMessage {
  bool wants_answer = false;
  bool keyed = false;  // the message ends with a tag
  uint64_t run = 0;
  NodeId source = 0, destination = kAllNodes;
  uint32_t incarnation = 0;
  CompatibilityInfo settings;
  Nonce session_id = kNoNonce;     // the sender's
  Nonce challenge = kNoNonce;      // for the receiver to echo; none in a multicast
  Nonce echo = kNoNonce;           // the receiver's last challenge
  Nonce known = kNoNonce;          // the receiver's session, as accepted by the sender
  uint32_t known_incarnation = 0;  // of that session; 0: none
  std::string name;                // the sender's; at most kNodeNameBytes, without zero bytes
};

// Whether DecodeHandshake handles the frame, instead of the exchange.
bool IsHandshake(std::span<const std::byte> frame);

// Writes all but the tag, which stays zero. CHECKs the length of the name.
void EncodeHandshake(const HandshakeMessage& handshake, HandshakeBytes* out);

// Returns kNone or one of kLength to kField. With kVersion only source and run are set.
DropReason DecodeHandshake(std::span<const std::byte> bytes, HandshakeMessage* handshake);

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_
