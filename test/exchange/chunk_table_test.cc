#include "exchange/protocol/chunk_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::vector<uint32_t> Listed(const ChunkTable& table) {
  std::vector<uint32_t> all;
  for (uint32_t c = table.pending.front(); c != kNoChunk; c = table.chunks[c].next) {
    all.push_back(c);
  }
  return all;
}

std::vector<uint32_t> RepliesTo(const ChunkTable& table, uint16_t node) {
  std::vector<uint32_t> all;
  for (uint32_t c = table.replies[node]; c != kNoChunk; c = table.chunks[c].next_reply) {
    all.push_back(c);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(PendingList, KeepsTheOrderOfPushingWhateverIsRemoved) {
  Rng rng(test::Seed(), {1});
  ChunkTable table(20, 2);
  std::deque<uint32_t> expected;
  for (int i = 0; i < 2000; ++i) {
    const uint32_t chunk = static_cast<uint32_t>(rng.Below(20));
    const auto at = std::find(expected.begin(), expected.end(), chunk);
    if (at == expected.end()) {
      table.pending.PushBack(table.chunks, chunk);
      expected.push_back(chunk);
    } else {
      table.pending.Remove(table.chunks, chunk);
      expected.erase(at);
    }
    ASSERT_EQ(Listed(table), std::vector<uint32_t>(expected.begin(), expected.end()));
  }
}

TEST(ChunkTable, KeepsABitForEveryNodeOfEveryChunk) {
  Rng rng(test::Seed(), {2});
  constexpr uint16_t kNodes = 130;
  ChunkTable table(7, kNodes);
  std::vector<bool> expected(7 * kNodes);
  for (int i = 0; i < 5000; ++i) {
    const uint32_t chunk = static_cast<uint32_t>(rng.Below(7));
    const uint16_t node = static_cast<uint16_t>(rng.Below(kNodes));
    const bool bit = rng.Below(2) != 0;
    table.SetAck(chunk, node, bit);
    expected[chunk * kNodes + node] = bit;
  }
  for (uint32_t chunk = 0; chunk < 7; ++chunk) {
    for (uint16_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(table.ack(chunk, node), expected[chunk * kNodes + node]);
    }
  }
}

TEST(ChunkTable, ClearsTheBitsOfThoseWhoDoNotStay) {
  ChunkTable table(3, 70);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (uint16_t node = 0; node < 70; ++node) table.SetAck(chunk, node, true);
  }
  const uint64_t keep[] = {0b101, 0b10};
  table.KeepAcks(keep);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (uint16_t node = 0; node < 70; ++node) {
      EXPECT_EQ(table.ack(chunk, node), node == 0 || node == 2 || node == 65);
    }
  }
}

TEST(ChunkTable, ListsAChunkOnceHoweverManyRepliesAreDue) {
  ChunkTable table(5, 3);
  for (Chunk& chunk : table.chunks) chunk.owner = 1;
  table.chunks[4].owner = 2;
  table.ScheduleReply(3, &Chunk::ack_due);
  table.ScheduleReply(3, &Chunk::takeover_ack_due);
  table.ScheduleReply(3, &Chunk::ack_due);
  table.ScheduleReply(0, &Chunk::takeover_state_due);
  table.ScheduleReply(4, &Chunk::ack_due);
  EXPECT_EQ(RepliesTo(table, 1), (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(RepliesTo(table, 2), (std::vector<uint32_t>{4}));
  EXPECT_TRUE(table.chunks[3].ack_due && table.chunks[3].takeover_ack_due);
  EXPECT_FALSE(table.chunks[3].takeover_state_due);
  table.ClearReplies();
  EXPECT_TRUE(RepliesTo(table, 1).empty() && RepliesTo(table, 2).empty());
  EXPECT_FALSE(table.chunks[3].ack_due || table.chunks[3].takeover_ack_due);
}

TEST(ChunkTable, HoldsNothingAfterAReset) {
  ChunkTable table(4, 2);
  table.chunks[2].number = 9;
  table.chunks[2].owner = 1;
  table.SetAck(2, 1, true);
  table.pending.PushBack(table.chunks, 2);
  table.ScheduleReply(2, &Chunk::ack_due);
  table.owned.push_back(1);
  table.unsynced = 0;
  table.Reset();
  EXPECT_EQ(table.unsynced, 4);
  EXPECT_TRUE(table.owned.empty() && Listed(table).empty() && RepliesTo(table, 1).empty());
  EXPECT_FALSE(table.ack(2, 1));
  EXPECT_EQ(table.chunks[2].number, 0u);
  EXPECT_EQ(table.chunks[2].owner, kNoNode);
}

}  // namespace
}  // namespace millrace
