#include "exchange/protocol/outbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace millrace {
namespace {

constexpr size_t kSlots = 8, kAckBytes = 16, kPayload = 100;

FrameHeader HeaderOf(uint32_t chunk, uint32_t length) {
  FrameHeader header;
  header.type = FrameType::kDiff;
  header.destination = static_cast<uint16_t>(chunk % 5);
  header.chunk = chunk;
  header.length = length;
  return header;
}

// Posts a frame whose payload bytes all equal the chunk's number.
void PostOne(Outbox* outbox, uint32_t chunk) {
  const uint32_t slot = outbox->Take(Outbox::Use::kRest);
  memset(outbox->payload(slot), static_cast<int>(chunk), kPayload);
  outbox->Post(slot, HeaderOf(chunk, kPayload), {}, {outbox->payload(slot), kPayload});
}

uint32_t ChunkOf(const PostedFrame& out) {
  std::vector<std::byte> bytes(out.head.begin(), out.head.end());
  bytes.insert(bytes.end(), out.payload.begin(), out.payload.end());
  FrameView frame;
  EXPECT_EQ(DecodeFrame(bytes, &frame), DropReason::kNone);
  EXPECT_EQ(out.destination, frame.header.destination);
  for (const std::byte b : frame.payload) EXPECT_EQ(b, static_cast<std::byte>(frame.header.chunk));
  return frame.header.chunk;
}

TEST(Outbox, HandsFramesOutInTheOrderOfPostingHoweverTheyAreReleased) {
  Outbox outbox(kSlots, kAckBytes, kPayload);
  uint32_t posted = 0, drained = 0;
  std::vector<uint32_t> under_way;
  for (int round = 0; round < 200; ++round) {
    while (outbox.free() > 0) PostOne(&outbox, posted++ % 200);
    PostedFrame out[5];
    const size_t count = outbox.Drain({out, 1 + static_cast<size_t>(round) % 5});
    for (size_t i = 0; i < count; ++i, ++drained) {
      EXPECT_EQ(ChunkOf(out[i]), drained % 200);
      under_way.push_back(out[i].slot);
    }
    // In reverse order: transports finish in any order.
    for (; under_way.size() > static_cast<size_t>(round) % 3; under_way.pop_back()) {
      outbox.Release(under_way.back());
    }
  }
  EXPECT_GT(drained, 300u);
}

TEST(Outbox, CountsItsSlots) {
  Outbox outbox(kSlots, kAckBytes, kPayload);
  EXPECT_EQ(outbox.slots(), kSlots);
  EXPECT_EQ(outbox.free(), kSlots);
  PostOne(&outbox, 1);
  PostOne(&outbox, 2);
  EXPECT_EQ(outbox.free(), kSlots - 2);
  EXPECT_EQ(outbox.posted(), 2u);
  PostedFrame out[kSlots];
  EXPECT_EQ(outbox.Drain(out), 2u);
  EXPECT_EQ(outbox.posted(), 0u);
  EXPECT_EQ(outbox.free(), kSlots - 2);  // their bytes have not left yet
  outbox.Release(out[0].slot);
  outbox.Release(out[1].slot);
  EXPECT_EQ(outbox.free(), kSlots);
}

// Each use may fill its share, and the others still find room.
TEST(Outbox, KeepsRoomForEachUseHoweverManySlotsTheOthersHold) {
  using Use = Outbox::Use;
  for (const size_t slots : {8, 13, 256}) {
    for (const Use first : {Use::kPosition, Use::kDiff}) {
      const Use second = first == Use::kPosition ? Use::kDiff : Use::kPosition;
      Outbox outbox(slots, kAckBytes, kPayload);
      std::vector<uint32_t> taken;
      while (outbox.Room(first) > 0) taken.push_back(outbox.Take(first));
      const size_t most = taken.size();
      EXPECT_EQ(most, first == Use::kPosition ? slots / 2 : slots * 5 / 8);
      EXPECT_GE(outbox.Room(second), slots / 4);
      while (outbox.Room(second) > 0) taken.push_back(outbox.Take(second));
      EXPECT_EQ(taken.size(), slots * 7 / 8);
      EXPECT_GE(outbox.Room(Use::kRest), slots / 8);
      // Released slots are available again.
      for (size_t i = 0; i < most; ++i) outbox.Release(taken[i]);
      EXPECT_EQ(outbox.Room(first), most);
    }
  }
}

// A transport that accepts fewer frames than there are slots gets equal numbers of both kinds.
TEST(Outbox, LeavesPositionsRoomBesideDiffsThatComeFirst) {
  using Use = Outbox::Use;
  Outbox outbox(256, kAckBytes, kPayload);
  std::vector<uint32_t> diffs;
  outbox.ShareEvenly(true);
  while (outbox.Room(Use::kDiff) > 0) diffs.push_back(outbox.Take(Use::kDiff));
  EXPECT_EQ(diffs.size(), 96u);
  EXPECT_EQ(outbox.Room(Use::kPosition), 128u);
  outbox.ShareEvenly(false);
  EXPECT_EQ(outbox.Room(Use::kDiff), 64u);
  // The diffs taken before exceed the new limit.
  while (outbox.Room(Use::kDiff) > 0) diffs.push_back(outbox.Take(Use::kDiff));
  outbox.ShareEvenly(true);
  EXPECT_EQ(outbox.Room(Use::kDiff), 0u);
  for (int i = 0; i < 64; ++i) outbox.Release(diffs[i]);
  EXPECT_EQ(outbox.Room(Use::kDiff), 0u);
  outbox.Release(diffs[64]);
  EXPECT_EQ(outbox.Room(Use::kDiff), 1u);
}

TEST(Outbox, KnowsWhichChunkASlotHoldsUntilItsBytesHaveLeft) {
  Outbox outbox(kSlots, kAckBytes, kPayload);
  const uint32_t slot = outbox.Take(Outbox::Use::kDiff);
  EXPECT_FALSE(outbox.Holds(slot, 3));
  outbox.Post(slot, HeaderOf(3, kPayload), {}, {outbox.payload(slot), kPayload});
  EXPECT_TRUE(outbox.Holds(slot, 3));
  EXPECT_FALSE(outbox.Holds(slot, 4));
  PostedFrame out;
  ASSERT_EQ(outbox.Drain({&out, 1}), 1u);
  EXPECT_TRUE(outbox.Holds(slot, 3));
  outbox.Release(slot);
  EXPECT_FALSE(outbox.Holds(slot, 3));
}

TEST(Outbox, GivesEverySlotRoomOfItsOwnThatIsAligned) {
  Outbox outbox(kSlots, kAckBytes, kPayload);
  std::set<std::byte*> rooms;
  for (size_t i = 0; i < kSlots; ++i) {
    std::byte* payload = outbox.payload(outbox.Take(Outbox::Use::kRest));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(payload) % 8, 0u);
    for (std::byte* other : rooms) EXPECT_GE(std::abs(payload - other), std::ptrdiff_t{kPayload});
    rooms.insert(payload);
  }
}

TEST(Outbox, SendsAPayloadFromWhereItIs) {
  Outbox outbox(kSlots, kAckBytes, kPayload);
  std::vector<std::byte> elsewhere(kPayload, std::byte{3});
  const uint32_t slot = outbox.Take(Outbox::Use::kDiff);
  outbox.Post(slot, HeaderOf(3, kPayload), {}, elsewhere);
  PostedFrame out;
  ASSERT_EQ(outbox.Drain({&out, 1}), 1u);
  EXPECT_EQ(out.payload.data(), elsewhere.data());
  EXPECT_EQ(out.head.size(), kFrameHeaderBytes);
  EXPECT_EQ(ChunkOf(out), 3u);
}

}  // namespace
}  // namespace millrace
