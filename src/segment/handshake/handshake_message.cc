#include "segment/handshake/handshake_message.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "exchange/protocol/frame.h"

namespace millrace::inline segment {
namespace {

enum : size_t {
  kAtMagic = 0,
  kAtVersion = 4,
  kAtFlags = 5,
  kAtFrameVersion = 6,
  kAtNameBytes = 7,
  kAtRun = 8,
  kAtSource = 16,
  kAtDestination = 18,
  kAtIncarnation = 20,
  kAtMaxNodes = 24,
  kAtReserved = 26,
  kAtChunkFloats = 28,
  kAtParameters = 32,
  kAtLayoutDigest = 40,
  kAtMaxIter = 44,
  kAtTopologyDigest = 48,
  kAtSessionId = 56,
  kAtChallenge = 72,
  kAtEcho = 88,
  kAtKnown = 104,
  kAtName = 120,
  kAtKnownIncarnation = 184,
  kAtChecksum = 188,
  kAtTag = 192,
};
static_assert(kAtName + kNodeNameBytes == kAtKnownIncarnation && kAtTag == kHandshakeTagged &&
              kAtTag + kTagBytes == kHandshakeBytes);

constexpr uint8_t kFlagWantsAnswer = 1, kFlagKeyed = 2;

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Whether the message has fields that address one receiver.
bool Personal(const HandshakeMessage& in) {
  return in.challenge != kNoNonce || in.echo != kNoNonce || in.known != kNoNonce;
}

bool FieldsMakeSense(const HandshakeMessage& in, std::span<const std::byte> bytes) {
  const auto flags = std::to_integer<uint8_t>(bytes[kAtFlags]);
  const auto name_bytes = std::to_integer<size_t>(bytes[kAtNameBytes]);
  const auto name = bytes.subspan(kAtName, kNodeNameBytes);
  if ((flags & ~(kFlagWantsAnswer | kFlagKeyed)) != 0) return false;
  if (name_bytes == 0 || name_bytes > kNodeNameBytes) return false;
  if (in.name.find('\0') != std::string::npos || !AllZero(name.subspan(name_bytes))) return false;
  if (Get<uint16_t>(bytes.data(), kAtReserved) != 0) return false;
  if (in.known == kNoNonce && in.known_incarnation != 0) return false;
  if (in.source >= kMaxNodes || in.session_id == kNoNonce) return false;
  if (in.destination == kAllNodes ? Personal(in) : in.challenge == kNoNonce) return false;
  return in.keyed || AllZero(bytes.subspan(kAtTag));
}

}  // namespace

bool IsHandshake(std::span<const std::byte> frame) {
  return frame.size() >= sizeof(uint32_t) &&
         Get<uint32_t>(frame.data(), kAtMagic) == kHandshakeMagic;
}

void EncodeHandshake(const HandshakeMessage& in, HandshakeBytes* out) {
  CHECK(!in.name.empty() && in.name.size() <= kNodeNameBytes);
  std::byte* p = out->data();
  out->fill(std::byte{0});
  Put<uint32_t>(p, kAtMagic, kHandshakeMagic);
  Put<uint8_t>(p, kAtVersion, kHandshakeVersion);
  Put<uint8_t>(p, kAtFlags, (in.wants_answer ? kFlagWantsAnswer : 0) | (in.keyed ? kFlagKeyed : 0));
  Put<uint8_t>(p, kAtFrameVersion, in.settings.frame_version);
  Put<uint8_t>(p, kAtNameBytes, static_cast<uint8_t>(in.name.size()));
  Put<uint64_t>(p, kAtRun, in.run);
  Put<uint16_t>(p, kAtSource, in.source);
  Put<uint16_t>(p, kAtDestination, in.destination);
  Put<uint32_t>(p, kAtIncarnation, in.incarnation);
  Put<uint16_t>(p, kAtMaxNodes, in.settings.max_nodes);
  Put<uint32_t>(p, kAtChunkFloats, in.settings.chunk_floats);
  Put<uint64_t>(p, kAtParameters, in.settings.parameters);
  Put<uint32_t>(p, kAtLayoutDigest, in.settings.layout_digest);
  Put<uint32_t>(p, kAtMaxIter, in.settings.max_iter);
  Put<uint64_t>(p, kAtTopologyDigest, in.settings.topology_digest);
  Put<Nonce>(p, kAtSessionId, in.session_id);
  Put<Nonce>(p, kAtChallenge, in.challenge);
  Put<Nonce>(p, kAtEcho, in.echo);
  Put<Nonce>(p, kAtKnown, in.known);
  std::memcpy(p + kAtName, in.name.data(), in.name.size());
  Put<uint32_t>(p, kAtKnownIncarnation, in.known_incarnation);
  Put<uint32_t>(p, kAtChecksum, Crc32c({p, kAtChecksum}));
}

DropReason DecodeHandshake(std::span<const std::byte> bytes, HandshakeMessage* in) {
  if (bytes.size() != kHandshakeBytes) return DropReason::kLength;
  if (!IsHandshake(bytes)) return DropReason::kMagic;
  const std::byte* p = bytes.data();
  if (Get<uint32_t>(p, kAtChecksum) != Crc32c(bytes.first(kAtChecksum))) {
    return DropReason::kChecksum;
  }
  in->run = Get<uint64_t>(p, kAtRun);
  in->source = Get<uint16_t>(p, kAtSource);
  if (Get<uint8_t>(p, kAtVersion) != kHandshakeVersion) return DropReason::kVersion;
  const uint8_t flags = Get<uint8_t>(p, kAtFlags);
  in->wants_answer = (flags & kFlagWantsAnswer) != 0;
  in->keyed = (flags & kFlagKeyed) != 0;
  in->destination = Get<uint16_t>(p, kAtDestination);
  in->incarnation = Get<uint32_t>(p, kAtIncarnation);
  in->settings.frame_version = Get<uint8_t>(p, kAtFrameVersion);
  in->settings.max_nodes = Get<uint16_t>(p, kAtMaxNodes);
  in->settings.chunk_floats = Get<uint32_t>(p, kAtChunkFloats);
  in->settings.parameters = Get<uint64_t>(p, kAtParameters);
  in->settings.layout_digest = Get<uint32_t>(p, kAtLayoutDigest);
  in->settings.max_iter = Get<uint32_t>(p, kAtMaxIter);
  in->settings.topology_digest = Get<uint64_t>(p, kAtTopologyDigest);
  in->session_id = Get<Nonce>(p, kAtSessionId);
  in->challenge = Get<Nonce>(p, kAtChallenge);
  in->echo = Get<Nonce>(p, kAtEcho);
  in->known = Get<Nonce>(p, kAtKnown);
  in->known_incarnation = Get<uint32_t>(p, kAtKnownIncarnation);
  const size_t name_bytes = std::min<size_t>(Get<uint8_t>(p, kAtNameBytes), kNodeNameBytes);
  in->name.assign(reinterpret_cast<const char*>(p + kAtName), name_bytes);
  return FieldsMakeSense(*in, bytes) ? DropReason::kNone : DropReason::kField;
}

}  // namespace millrace::inline segment
