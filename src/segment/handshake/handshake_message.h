// Wire format of handshake messages: 208 bytes, little-endian (docs/handshake.md). The functions
// keep no state. Decoding accepts bytes of any content.
#ifndef MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_
#define MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/node_id.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace {

inline constexpr uint32_t kHandshakeMagic = 0x49524c4d;  // "MLRI"
inline constexpr uint8_t kHandshakeVersion = 2;
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
  uint64_t layout_digest = 0;    // ParamLayout::Digest()
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

// Why a handshake message was dropped; index of the counters.
enum class HandshakeDrop : uint8_t {
  kNone,             // accepted
  kLength,           // length is not kHandshakeBytes
  kMagic,            // not a handshake message
  kChecksum,         // corrupted
  kVersion,          // another version of the format
  kField,            // a field has an invalid value
  kRun,              // of another run
  kSelf,             // from this node, looped back
  kDestination,      // addressed to another node
  kStranger,         // no node of this run has the source's id
  kSource,           // the transport received it from another node than the source
  kNoKey,            // no tag, but this node has a key
  kForeignKey,       // a tag, but this node has no key
  kTag,              // made with another key, or forged
  kUnauthenticated,  // does not echo the challenge, may be a replay; may be answered
  kDiffers,          // authenticated, but the settings differ
  kCount
};
const char* HandshakeDropName(HandshakeDrop drop);
using HandshakeDrops = std::array<uint64_t, static_cast<size_t>(HandshakeDrop::kCount)>;

// Whether DecodeHandshake handles the frame, instead of the exchange.
bool IsHandshake(std::span<const std::byte> frame);

// Writes all but the tag, which stays zero. CHECKs the length of the name.
void EncodeHandshake(const HandshakeMessage& handshake, HandshakeBytes* out);

// Returns kNone or one of kLength to kField. With kVersion only source and run are set.
HandshakeDrop DecodeHandshake(std::span<const std::byte> bytes, HandshakeMessage* handshake);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_
