#include "exchange/protocol/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/rng.h"
#include "base/wire_bytes.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr FrameType kTypes[] = {
    FrameType::kPosition,        FrameType::kDiff,        FrameType::kPositionAck,
    FrameType::kTakeoverRequest, FrameType::kTakeoverAck, FrameType::kTakeoverState,
    FrameType::kHeartbeat,       FrameType::kPropose,     FrameType::kAccept};

std::vector<std::byte> AnyBytes(Rng* rng, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng->Next());
  return bytes;
}

FrameHeader AnyHeader(Rng* rng, FrameType type, uint16_t ack_bytes, uint32_t length) {
  FrameHeader h;
  h.type = type;
  h.codec = static_cast<Codec>(rng->Below(5));
  h.run = rng->Next64();
  h.source = static_cast<uint16_t>(rng->Below(kMaxNodes));
  h.destination = static_cast<uint16_t>(rng->Next());
  h.incarnation = rng->Next();
  h.view = {static_cast<uint32_t>(rng->Below(uint64_t{kMaxEpoch} + 1)),
            static_cast<uint16_t>(rng->Next()), rng->Next()};
  if (type == FrameType::kPosition) h.unsettled = rng->Below(2) == 1;
  h.ack_bytes = ack_bytes;
  h.chunk = rng->Next();
  h.length = length;
  h.number = rng->Below(kMaxPositionNumber + 1);
  h.clock = rng->Below(kMaxClock + 1);
  h.seq = rng->Next();
  return h;
}

// A frame as received, in one piece.
std::vector<std::byte> Encoded(const FrameHeader& h, const std::vector<std::byte>& acks,
                               const std::vector<std::byte>& payload) {
  std::vector<std::byte> bytes(kFrameHeaderBytes + acks.size());
  EncodeFrame(h, acks, payload, bytes);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

constexpr uint16_t kAcks = 16;

std::vector<std::byte> AFrame(Rng* rng) {
  const auto acks = AnyBytes(rng, kAcks), payload = AnyBytes(rng, 37);
  return Encoded(AnyHeader(rng, FrameType::kPosition, kAcks, 37), acks, payload);
}

DropReason Decoded(const std::vector<std::byte>& bytes) {
  FrameView frame;
  return DecodeFrame(bytes, &frame);
}

// Result of decoding a valid frame with one field overwritten.
template <typename T>
DropReason DecodedWith(size_t offset, T value) {
  Rng rng(test::Seed(), {1});
  auto bytes = AFrame(&rng);
  Put(bytes.data(), offset, value);
  return Decoded(bytes);
}

TEST(Frame, KeepsEveryFieldOfEveryType) {
  Rng rng(test::Seed(), {2});
  for (const FrameType type : kTypes) {
    for (int i = 0; i < 200; ++i) {
      const auto acks = AnyBytes(&rng, 8 * rng.Below(5)), payload = AnyBytes(&rng, rng.Below(70));
      const auto h = AnyHeader(&rng, type, static_cast<uint16_t>(acks.size()),
                               static_cast<uint32_t>(payload.size()));
      const auto bytes = Encoded(h, acks, payload);
      FrameView frame;
      ASSERT_EQ(DecodeFrame(bytes, &frame), DropReason::kNone);
      const FrameHeader& d = frame.header;
      EXPECT_EQ(d.type, h.type);
      EXPECT_EQ(d.codec, h.codec);
      EXPECT_EQ(d.payload_unchecked, h.payload_unchecked);
      EXPECT_EQ(d.unsettled, h.unsettled);
      EXPECT_EQ(d.run, h.run);
      EXPECT_EQ(d.source, h.source);
      EXPECT_EQ(d.destination, h.destination);
      EXPECT_EQ(d.incarnation, h.incarnation);
      EXPECT_EQ(d.view, h.view);
      EXPECT_EQ(d.ack_bytes, h.ack_bytes);
      EXPECT_EQ(d.chunk, h.chunk);
      EXPECT_EQ(d.length, h.length);
      EXPECT_EQ(d.number, h.number);
      EXPECT_EQ(d.clock, h.clock);
      EXPECT_EQ(d.seq, h.seq);
      EXPECT_TRUE(std::equal(frame.acks.begin(), frame.acks.end(), acks.begin(), acks.end()));
      EXPECT_TRUE(
          std::equal(frame.payload.begin(), frame.payload.end(), payload.begin(), payload.end()));
    }
  }
}

TEST(Frame, RefusesASingleFlippedBitAnywhere) {
  Rng rng(test::Seed(), {3});
  auto bytes = AFrame(&rng);
  ASSERT_EQ(Decoded(bytes), DropReason::kNone);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(Decoded(bytes), DropReason::kNone) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(Frame, RefusesEveryTruncationAndEveryExtension) {
  Rng rng(test::Seed(), {4});
  auto bytes = AFrame(&rng);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + size);
    const bool cut_head = size < kFrameHeaderBytes + kAcks;
    EXPECT_EQ(Decoded(part), size < kFrameHeaderBytes ? DropReason::kShort
                             : cut_head               ? DropReason::kLength
                                                      : DropReason::kChecksum)
        << size;
  }
  bytes.push_back({});
  EXPECT_EQ(Decoded(bytes), DropReason::kChecksum);
}

TEST(Frame, SaysWhyItIsDropped) {
  EXPECT_EQ(DecodedWith<uint32_t>(0, 0x4d4c5244), DropReason::kMagic);
  EXPECT_EQ(DecodedWith<uint8_t>(4, kFrameVersion + 1), DropReason::kVersion);
  EXPECT_EQ(DecodedWith<uint8_t>(5, 0), DropReason::kField);           // unknown type
  EXPECT_EQ(DecodedWith<uint8_t>(5, 10), DropReason::kField);          // unknown type
  EXPECT_EQ(DecodedWith<uint8_t>(6, 5), DropReason::kField);           // unknown codec
  EXPECT_EQ(DecodedWith<uint8_t>(7, 16), DropReason::kField);          // unknown flag
  EXPECT_EQ(DecodedWith<uint16_t>(30, 12), DropReason::kLength);       // not a multiple of 8
  EXPECT_EQ(DecodedWith<uint16_t>(30, 16 + 40), DropReason::kLength);  // exceeds the frame
  EXPECT_EQ(DecodedWith<uint16_t>(30, 24), DropReason::kChecksum);
  EXPECT_EQ(DecodedWith<uint32_t>(60, 0), DropReason::kChecksum);
}

TEST(Frame, RefusesASourceThatNoNodeHas) {
  Rng rng(test::Seed(), {5});
  FrameHeader h = AnyHeader(&rng, FrameType::kAccept, 0, 0);
  h.source = kMaxNodes;
  EXPECT_EQ(Decoded(Encoded(h, {}, {})), DropReason::kField);
}

TEST(Frame, RefusesAnEpochThatNoViewCanFollow) {
  Rng rng(test::Seed(), {8});
  FrameHeader h = AnyHeader(&rng, FrameType::kAccept, 0, 0);
  h.view.epoch = kMaxEpoch + 1;
  EXPECT_EQ(Decoded(Encoded(h, {}, {})), DropReason::kField);
}

TEST(Frame, RefusesCountsThatNoNodeReaches) {
  Rng rng(test::Seed(), {8});
  FrameHeader h = AnyHeader(&rng, FrameType::kPosition, 0, 0);
  h.clock = kMaxClock;
  h.number = kMaxPositionNumber;
  EXPECT_EQ(Decoded(Encoded(h, {}, {})), DropReason::kNone);
  h.clock = kMaxClock + 1;
  EXPECT_EQ(Decoded(Encoded(h, {}, {})), DropReason::kField);
  h.clock = 0;
  h.number = kMaxPositionNumber + 1;
  EXPECT_EQ(Decoded(Encoded(h, {}, {})), DropReason::kField);
}

TEST(Frame, HasGapsOnlyInSparsePositionsAndDiffs) {
  Rng rng(test::Seed(), {10});
  for (const FrameType type : kTypes) {
    for (const Codec codec : {Codec::kFloat32, Codec::kSparse}) {
      for (const SparseForm form : {SparseForm::kGaps, SparseForm::kShortGaps}) {
        FrameHeader h = AnyHeader(&rng, type, 0, 4);
        h.payload_unchecked = h.unsettled = false;
        h.codec = codec;
        h.sparse_form = form;
        const bool holds =
            codec == Codec::kSparse && (type == FrameType::kPosition || type == FrameType::kDiff);
        FrameView view;
        const std::vector<std::byte> payload(4);
        const std::vector<std::byte> bytes = Encoded(h, {}, payload);
        EXPECT_EQ(DecodeFrame(bytes, &view), holds ? DropReason::kNone : DropReason::kField);
        EXPECT_TRUE(!holds || view.header.sparse_form == form);
      }
    }
  }
  FrameHeader h = AnyHeader(&rng, FrameType::kDiff, 0, 0);
  h.codec = Codec::kSparse;
  std::vector<std::byte> bytes = Encoded(h, {}, {});
  bytes[7] = std::byte{8};  // short values without gaps
  Put<uint32_t>(bytes.data(), 60, Crc32c(std::span(bytes).first(60), {}));
  EXPECT_EQ(Decoded(bytes), DropReason::kField);
}

TEST(Frame, LeavesOnlyPositionsUncheckedOrUnsettled) {
  Rng rng(test::Seed(), {9});
  for (const FrameType type : kTypes) {
    for (const bool unchecked : {false, true}) {
      FrameHeader h = AnyHeader(&rng, type, 0, 4);
      h.payload_unchecked = unchecked;
      h.unsettled = !unchecked;
      EXPECT_EQ(Decoded(Encoded(h, {}, AnyBytes(&rng, 4))),
                type == FrameType::kPosition ? DropReason::kNone : DropReason::kField);
    }
  }
}

TEST(Frame, HasANameForEveryReasonToDropIt) {
  for (size_t drop = 0; drop < static_cast<size_t>(DropReason::kCount); ++drop) {
    EXPECT_GT(strlen(DropReasonName(static_cast<DropReason>(drop))), 2u);
  }
}

// Only the link protects a payload that may change while it is sent; the checksum covers the
// rest.
TEST(Frame, ChecksAllButAPayloadThatIsMarkedSo) {
  Rng rng(test::Seed(), {6});
  const auto acks = AnyBytes(&rng, 8), payload = AnyBytes(&rng, 24);
  FrameHeader h = AnyHeader(&rng, FrameType::kPosition, 8, 24);
  h.payload_unchecked = true;
  auto bytes = Encoded(h, acks, payload);
  for (size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{4};
    EXPECT_EQ(Decoded(bytes) == DropReason::kNone, at >= kFrameHeaderBytes + 8) << "byte " << at;
    bytes[at] ^= std::byte{4};
  }
}

TEST(Frame, IsWrittenWithoutTouchingItsPayload) {
  Rng rng(test::Seed(), {7});
  const auto acks = AnyBytes(&rng, 8), payload = AnyBytes(&rng, 24);
  const FrameHeader h = AnyHeader(&rng, FrameType::kTakeoverState, 8, 24);
  constexpr std::byte kFill{0xa5};
  std::vector<std::byte> head(kFrameHeaderBytes + 8 + 16, kFill);
  EncodeFrame(h, acks, payload, std::span(head).first(kFrameHeaderBytes + 8));
  for (size_t i = kFrameHeaderBytes + 8; i < head.size(); ++i) EXPECT_EQ(head[i], kFill);
  head.resize(kFrameHeaderBytes + 8);
  head.insert(head.end(), payload.begin(), payload.end());
  EXPECT_EQ(head, Encoded(h, acks, payload));
}

TEST(ChunkNumber, KeepsBothOfItsNumbers) {
  std::byte bytes[kChunkNumberBytes];
  EncodeChunkNumber({0xfedcba98, 0x0123456789abcdef}, bytes);
  const ChunkNumber entry = DecodeChunkNumber(bytes);
  EXPECT_EQ(entry.chunk, 0xfedcba98u);
  EXPECT_EQ(entry.number, 0x0123456789abcdefu);
}

TEST(AckWords, HoldABitForEveryNode) {
  EXPECT_EQ(AckWords(1), 1u);
  EXPECT_EQ(AckWords(64), 1u);
  EXPECT_EQ(AckWords(65), 2u);
  EXPECT_EQ(AckWords(kMaxNodes), 64u);
}

}  // namespace
}  // namespace millrace
