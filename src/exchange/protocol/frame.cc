#include "exchange/protocol/frame.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/wire_bytes.h"

namespace millrace::inline exchange {
namespace {

// Offsets within the header.
enum : size_t {
  kAtMagic = 0,
  kAtVersion = 4,
  kAtType = 5,
  kAtCodec = 6,
  kAtFlags = 7,
  kAtRun = 8,
  kAtSource = 16,
  kAtDestination = 18,
  kAtIncarnation = 20,
  kAtEpoch = 24,
  kAtCoordinator = 28,
  kAtAckBytes = 30,
  kAtChunk = 32,
  kAtCoordinatorIncarnation = 36,
  kAtNumber = 40,
  kAtClock = 48,
  kAtSeq = 56,
  kAtChecksum = 60,
};

constexpr uint8_t kFlagPayloadUnchecked = 1, kFlagUnsettled = 2, kFlagGaps = 4, kFlagShort = 8;
constexpr uint8_t kPositionFlags = kFlagPayloadUnchecked | kFlagUnsettled;
constexpr uint8_t kFlags = kPositionFlags | kFlagGaps | kFlagShort;

uint8_t FlagsOf(const FrameHeader& h) {
  const bool is_short = h.sparse_form == SparseForm::kShortGaps;
  const bool has_gaps = h.sparse_form != SparseForm::kBitmap;
  return static_cast<uint8_t>((h.payload_unchecked ? kFlagPayloadUnchecked : 0) |
                              (h.unsettled ? kFlagUnsettled : 0) | (has_gaps ? kFlagGaps : 0) |
                              (is_short ? kFlagShort : 0));
}

SparseForm SparseFormOf(uint8_t flags) {
  if (!(flags & kFlagGaps)) return SparseForm::kBitmap;
  return flags & kFlagShort ? SparseForm::kShortGaps : SparseForm::kGaps;
}

// Whether a frame has flags that its type and codec do not use.
bool IsMisused(uint8_t flags, const FrameHeader& h) {
  if ((flags & kPositionFlags) && h.type != FrameType::kPosition) return true;
  const bool is_sparse =
      h.codec == Codec::kSparse && (h.type == FrameType::kPosition || h.type == FrameType::kDiff);
  if ((flags & kFlagGaps) && !is_sparse) return true;
  return (flags & kFlagShort) && !(flags & kFlagGaps);
}

// Checksum of a frame in one or two pieces. `head` begins with the header.
uint32_t Checksum(std::span<const std::byte> head, std::span<const std::byte> payload) {
  const uint32_t crc = Crc32c(head.first<kAtChecksum>(), head.subspan(kFrameHeaderBytes));
  return payload.empty() ? crc : Crc32c(payload, crc);
}

// Writes the fields of an 8-byte word with one store. The checksum reads the word right after, and
// would stall on several narrower stores.
template <size_t... kAt, typename... T>
void PutWord(std::byte* out, T... fields) {
  constexpr size_t kFirst = std::min({kAt...});
  static_assert(kFirst % 8 == 0 && (sizeof(T) + ...) == 8);
  Put<uint64_t>(out, kFirst, ((uint64_t{fields} << 8 * (kAt - kFirst)) | ...));
}

bool KnownType(uint8_t type) {
  return type >= static_cast<uint8_t>(FrameType::kPosition) &&
         type <= static_cast<uint8_t>(FrameType::kAccept);
}

}  // namespace

const char* FrameTypeName(FrameType type) {
  static constexpr const char* kNames[] = {
      "none",         "position",       "diff",      "position_ack", "takeover_request",
      "takeover_ack", "takeover_state", "heartbeat", "propose",      "accept"};
  static_assert(std::size(kNames) == kFrameTypes);
  return kNames[static_cast<size_t>(type)];
}

void EncodeFrame(const FrameHeader& h, std::span<const std::byte> acks,
                 std::span<const std::byte> payload, std::span<std::byte> out) {
  std::byte* p = out.data();
  PutWord<kAtMagic, kAtVersion, kAtType, kAtCodec, kAtFlags>(
      p, kFrameMagic, kFrameVersion, static_cast<uint8_t>(h.type), static_cast<uint8_t>(h.codec),
      FlagsOf(h));
  Put<uint64_t>(p, kAtRun, h.run);
  PutWord<kAtSource, kAtDestination, kAtIncarnation>(p, h.source, h.destination, h.incarnation);
  PutWord<kAtEpoch, kAtCoordinator, kAtAckBytes>(p, h.view.epoch, h.view.coordinator, h.ack_bytes);
  PutWord<kAtChunk, kAtCoordinatorIncarnation>(p, h.chunk, h.view.incarnation);
  Put<uint64_t>(p, kAtNumber, h.number);
  Put<uint64_t>(p, kAtClock, h.clock);
  Put<uint32_t>(p, kAtSeq, h.seq);
  for (size_t at = 0; at < acks.size(); at += 8) {
    Put<uint64_t>(p, kFrameHeaderBytes + at, Get<uint64_t>(acks.data(), at));
  }
  const auto head = out.first(kFrameHeaderBytes + h.ack_bytes);
  Put<uint32_t>(p, kAtChecksum, Checksum(head, h.payload_unchecked ? payload.first(0) : payload));
}

DropReason DecodeFrame(std::span<const std::byte> bytes, FrameView* frame) {
  if (bytes.size() < kFrameHeaderBytes) return DropReason::kShort;
  const std::byte* p = bytes.data();
  if (Get<uint32_t>(p, kAtMagic) != kFrameMagic) return DropReason::kMagic;
  if (Get<uint8_t>(p, kAtVersion) != kFrameVersion) return DropReason::kVersion;
  const uint8_t type = Get<uint8_t>(p, kAtType), codec = Get<uint8_t>(p, kAtCodec);
  const uint8_t flags = Get<uint8_t>(p, kAtFlags);
  if (!KnownType(type) || codec > static_cast<uint8_t>(Codec::kInt4) || (flags & ~kFlags) != 0) {
    return DropReason::kField;
  }
  FrameHeader& h = frame->header;
  h.type = static_cast<FrameType>(type);
  h.codec = static_cast<Codec>(codec);
  h.payload_unchecked = flags & kFlagPayloadUnchecked;
  h.unsettled = flags & kFlagUnsettled;
  h.sparse_form = SparseFormOf(flags);
  h.run = Get<uint64_t>(p, kAtRun);
  h.source = Get<uint16_t>(p, kAtSource);
  h.destination = Get<uint16_t>(p, kAtDestination);
  h.incarnation = Get<uint32_t>(p, kAtIncarnation);
  h.view = {Get<uint32_t>(p, kAtEpoch), Get<uint16_t>(p, kAtCoordinator),
            Get<uint32_t>(p, kAtCoordinatorIncarnation)};
  h.ack_bytes = Get<uint16_t>(p, kAtAckBytes);
  h.chunk = Get<uint32_t>(p, kAtChunk);
  h.number = Get<uint64_t>(p, kAtNumber);
  h.clock = Get<uint64_t>(p, kAtClock);
  h.seq = Get<uint32_t>(p, kAtSeq);
  if (h.ack_bytes % 8 != 0 || bytes.size() < kFrameHeaderBytes + size_t{h.ack_bytes}) {
    return DropReason::kLength;
  }
  const auto head = bytes.first(kFrameHeaderBytes + h.ack_bytes);
  frame->acks = head.subspan(kFrameHeaderBytes);
  frame->payload = bytes.subspan(head.size());
  h.length = static_cast<uint32_t>(frame->payload.size());
  const auto checked = h.payload_unchecked ? head : bytes;
  if (Get<uint32_t>(p, kAtChecksum) != Checksum(checked, {})) return DropReason::kChecksum;
  const bool too_large =
      h.view.epoch > kMaxEpoch || h.clock > kMaxClock || h.number > kMaxPositionNumber;
  if (h.source >= kMaxNodes || too_large || IsMisused(flags, h)) return DropReason::kField;
  return DropReason::kNone;
}

uint16_t FrameSource(std::span<const std::byte> header) {
  return Get<uint16_t>(header.data(), kAtSource);
}

uint32_t FrameChunk(std::span<const std::byte> header) {
  return Get<uint32_t>(header.data(), kAtChunk);
}

void EncodeChunkNumber(const ChunkNumber& entry, std::byte* out) {
  Put<uint32_t>(out, 0, entry.chunk);
  Put<uint64_t>(out, 4, entry.number);
}

ChunkNumber DecodeChunkNumber(const std::byte* in) {
  return {Get<uint32_t>(in, 0), Get<uint64_t>(in, 4)};
}

}  // namespace millrace::inline exchange
