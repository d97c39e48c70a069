// Handshake messages on the wire, byte by byte as docs/handshake.md has them: 208 bytes,
// little-endian. Nothing here keeps state; decoding trusts no byte.
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
inline constexpr size_t kNodeNameBytes = 64;     // the longest name
inline constexpr size_t kHandshakeBytes = 208;   // tag included
inline constexpr size_t kHandshakeTagged = 192;  // what the tag is of

using HandshakeBytes = std::array<std::byte, kHandshakeBytes>;

// What has to be equal on two nodes for their exchanges to understand each other.
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
  bool keyed = false;  // its last bytes are a tag
  uint64_t run = 0;
  NodeId source = 0, destination = kAllNodes;
  uint32_t incarnation = 0;
  CompatibilityInfo settings;
  Nonce session_id = kNoNonce;     // of the sender
  Nonce challenge = kNoNonce;      // to the receiver, which echoes it; none in a multicast
  Nonce echo = kNoNonce;           // the last challenge of the receiver's
  Nonce known = kNoNonce;          // the receiver's life that the sender believes in
  uint32_t known_incarnation = 0;  // of that life; 0 if there is none
  std::string name;                // of the sender; at most kNodeNameBytes, without zeros
};

// Why handshake messages have no effect; what the counters are indexed by.
enum class HandshakeDrop : uint8_t {
  kNone,             // taken
  kLength,           // not kHandshakeBytes
  kMagic,            // not an handshake message
  kChecksum,         // damaged on the way
  kVersion,          // another version
  kField,            // a field holds a value that no sender writes
  kRun,              // another run's
  kSelf,             // our own, looped back
  kDestination,      // for another node
  kStranger,         // no node of this run has that id
  kSource,           // came from another node than it says
  kNoKey,            // without a tag, and we have a key
  kForeignKey,       // with a tag, and we have no key
  kTag,              // made with another key, or forged
  kUnauthenticated,  // does not echo our challenge: perhaps a recording. It may be answered
  kDiffers,          // proven, but not of our settings
  kCount
};
const char* HandshakeDropName(HandshakeDrop drop);
using HandshakeDrops = std::array<uint64_t, static_cast<size_t>(HandshakeDrop::kCount)>;

// Whether a frame is for DecodeHandshake rather than for the exchange.
bool IsHandshake(std::span<const std::byte> frame);

// All but the tag, which is left zero. CHECKs that the name fits.
void EncodeHandshake(const HandshakeMessage& handshake, HandshakeBytes* out);

// kLength to kField, or kNone. With kVersion source and run are set, and nothing else is.
HandshakeDrop DecodeHandshake(std::span<const std::byte> bytes, HandshakeMessage* handshake);

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_HANDSHAKE_HANDSHAKE_MESSAGE_H_
