#include "segment/gossip/gossip_message.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "exchange/protocol/frame.h"

namespace millrace::inline segment {
namespace {

// Run and source have the same offsets as in exchange frames.
enum : size_t {
  kAtMagic = 0,
  kAtVersion = 4,
  kAtKind = 5,
  kAtKey = 6,
  kAtReserved = 7,
  kAtRun = 8,
  kAtSource = 16,
  kAtDestination = 18,
  kAtIncarnation = 20,
  kAtOrigin = 24,
  kAtTotal = 26,
  kAtOffset = 28,
  kAtReservedToo = 30,
  kAtOriginIncarnation = 32,
  kAtReservedLast = 36,
  kAtVersionNumber = 40,
  kAtZeros = 48,
  kAtChecksum = 60,
};
static_assert(kGossipHeadBytes == kFrameHeaderBytes);

uint32_t Checksum(std::span<const std::byte> head, std::span<const std::byte> part) {
  const uint32_t crc = Crc32c(head.first(kAtChecksum));
  return part.empty() ? crc : Crc32c(part, crc);
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool PartFits(const GossipHead& head, size_t bytes) {
  const size_t end = head.offset + bytes;
  if (head.kind == GossipKind::kAck) return end == 0 && head.total == 0;
  if (head.version.number == 0 || head.total > kMaxGossipBytes || end > head.total) return false;
  if (bytes == 0) return head.total == 0;
  return head.offset % kGossipFragmentUnit == 0 &&
         (end == head.total || end % kGossipFragmentUnit == 0);
}

}  // namespace

bool IsGossip(std::span<const std::byte> frame) {
  return frame.size() >= sizeof(uint32_t) && Get<uint32_t>(frame.data(), kAtMagic) == kGossipMagic;
}

void EncodeGossip(const GossipHead& head, std::span<const std::byte> part,
                  std::span<std::byte, kGossipHeadBytes> out) {
  std::byte* p = out.data();
  std::fill(out.begin(), out.end(), std::byte{0});
  Put<uint32_t>(p, kAtMagic, kGossipMagic);
  Put<uint8_t>(p, kAtVersion, kGossipVersion);
  Put<uint8_t>(p, kAtKind, static_cast<uint8_t>(head.kind));
  Put<uint8_t>(p, kAtKey, static_cast<uint8_t>(head.key));
  Put<uint64_t>(p, kAtRun, head.run);
  Put<uint16_t>(p, kAtSource, head.source);
  Put<uint16_t>(p, kAtDestination, head.destination);
  Put<uint32_t>(p, kAtIncarnation, head.incarnation);
  Put<uint16_t>(p, kAtOrigin, head.origin);
  Put<uint16_t>(p, kAtTotal, head.total);
  Put<uint16_t>(p, kAtOffset, head.offset);
  Put<uint32_t>(p, kAtOriginIncarnation, head.version.incarnation);
  Put<uint64_t>(p, kAtVersionNumber, head.version.number);
  Put<uint32_t>(p, kAtChecksum, Checksum(out, part));
}

DropReason DecodeGossip(std::span<const std::byte> frame, GossipHead* head,
                        std::span<const std::byte>* part) {
  if (frame.size() < kGossipHeadBytes) return DropReason::kLength;
  if (!IsGossip(frame)) return DropReason::kMagic;
  const auto bytes = frame.first(kGossipHeadBytes);
  *part = frame.subspan(kGossipHeadBytes);
  const std::byte* p = frame.data();
  if (Get<uint32_t>(p, kAtChecksum) != Checksum(bytes, *part)) return DropReason::kChecksum;
  if (Get<uint8_t>(p, kAtVersion) != kGossipVersion) return DropReason::kVersion;
  const uint8_t kind = Get<uint8_t>(p, kAtKind), key = Get<uint8_t>(p, kAtKey);
  const bool known_kind = kind == static_cast<uint8_t>(GossipKind::kFragment) ||
                          kind == static_cast<uint8_t>(GossipKind::kAck);
  const bool zeros = Get<uint8_t>(p, kAtReserved) == 0 && Get<uint16_t>(p, kAtReservedToo) == 0 &&
                     Get<uint32_t>(p, kAtReservedLast) == 0 &&
                     AllZero(bytes.subspan(kAtZeros, kAtChecksum - kAtZeros));
  if (!known_kind || key >= kGossipKeys || !zeros) return DropReason::kField;
  head->kind = static_cast<GossipKind>(kind);
  head->key = static_cast<GossipKey>(key);
  head->run = Get<uint64_t>(p, kAtRun);
  head->source = Get<uint16_t>(p, kAtSource);
  head->destination = Get<uint16_t>(p, kAtDestination);
  head->incarnation = Get<uint32_t>(p, kAtIncarnation);
  head->origin = Get<uint16_t>(p, kAtOrigin);
  head->version = {Get<uint32_t>(p, kAtOriginIncarnation), Get<uint64_t>(p, kAtVersionNumber)};
  head->total = Get<uint16_t>(p, kAtTotal);
  head->offset = Get<uint16_t>(p, kAtOffset);
  return PartFits(*head, part->size()) ? DropReason::kNone : DropReason::kField;
}

}  // namespace millrace::inline segment
