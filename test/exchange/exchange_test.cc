#include "exchange/protocol/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

bool IsType(const FrameBytes& frame, FrameType type) { return frame.decoded().header.type == type; }

TEST(Exchange, AnswersAPositionByTheDiffThatItsSideHasMade) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  int positions = 0, diffs = 0;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameView view = frame.decoded();
    if (view.header.type == FrameType::kDiff && view.header.chunk == chunk) {
      EXPECT_EQ(to, 0);
      EXPECT_EQ(view.header.seq, 1u);
      ++diffs;
    }
    positions += view.header.type == FrameType::kPosition && view.header.chunk == chunk;
    return true;
  };
  x[1].weights[chunk * 10 + 3] += 5;  // not reported: only a position makes the exchange examine it
  x.Add(0, chunk * 10 + 4, 2);
  x[1].exchange->SetProgress(++x[1].iterations);
  x.Settle();
  EXPECT_GE(positions, 2);
  EXPECT_EQ(diffs, 1);
  for (size_t node : {0, 1}) {
    EXPECT_EQ(x[node].weights[chunk * 10 + 3], 5);
    EXPECT_EQ(x[node].weights[chunk * 10 + 4], 2);
  }
}

// The number tells the master how stale the diff is.
TEST(Exchange, SendsALostDiffAgainWithTheNumberOfThePositionThatPrecededIt) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  std::vector<uint64_t> numbers;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameHeader header = frame.decoded().header;
    if (header.type != FrameType::kDiff || header.chunk != chunk || header.seq != 1) return true;
    numbers.push_back(header.number);
    return numbers.size() > 3;
  };
  x.Add(1, chunk * 10 + 3, 5);
  uint64_t taken = 0;
  for (int step = 0; step < 100; ++step) {
    x.Add(0, chunk * 10 + 4, 2);  // node 0 sends a position in every tick
    x.Tick();
    if (numbers.size() < 4) taken = x.exchange(1).table().chunks[chunk].number;
  }
  ASSERT_GE(numbers.size(), 4u);
  EXPECT_GT(taken, numbers[0] + 3);
  EXPECT_EQ(numbers, std::vector<uint64_t>(numbers.size(), numbers[0]));
  x.Settle();
  EXPECT_EQ(x[0].weights[chunk * 10 + 3], 5);
}

TEST(Exchange, SendsALostDiffAgainWithTheSameSeqAndBytes) {
  for (const Codec codec :
       {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse}) {
    Cluster x({.codec = {codec, 0.5f}});
    const uint32_t chunk = x.ChunkOf(0);
    std::vector<std::vector<std::byte>> sent;
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
      const FrameView view = frame.decoded();
      if (view.header.type != FrameType::kDiff || view.header.chunk != chunk) return true;
      EXPECT_EQ(view.header.seq, 1u);
      sent.emplace_back(view.payload.begin(), view.payload.end());
      return sent.size() > 3;
    };
    for (int i = 0; i < 10; ++i) x[1].weights[chunk * 10 + i] += i == 4 ? 0 : 0.37f * i - 1;
    x.exchange(1).SetProgress(++x[1].iterations);
    while (sent.empty()) x.Tick();
    // Progress made meanwhile waits until the pending diff is acknowledged.
    x.Add(1, chunk * 10 + 4, 100);
    while (sent.size() < 4) x.Tick();
    EXPECT_EQ(sent[0], sent[1]);
    EXPECT_EQ(sent[0], sent[3]);
    EXPECT_GE(x.exchange(1).stats().resends, 3u);
    x.delivers = nullptr;
    x.Settle();
    EXPECT_NEAR(x[0].weights[chunk * 10 + 4], 100, 0.5);
    EXPECT_NEAR(x[0].weights[chunk * 10 + 7], 0.37f * 7 - 1, 0.5);
  }
}

TEST(Exchange, ReadsItsOwnWritesWhateverIsLost) {
  Cluster x({});
  int count = 0;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    return frame.decoded().header.type >= FrameType::kHeartbeat || ++count % 3 == 0;
  };
  float made[2] = {0, 0};
  for (int tick = 0; tick < 300; ++tick) {
    for (size_t node : {0, 1}) {
      if ((tick + node) % 3 == 0) x.Add(node, 2 * (tick % 20) + node, 1), ++made[node];
    }
    x.Tick();
    for (size_t node : {0, 1}) {
      float own = 0;
      for (size_t i = node; i < x[node].weights.size(); i += 2) own += x[node].weights[i];
      ASSERT_EQ(own, made[node]) << "tick " << tick;
    }
  }
  x.delivers = nullptr;
  x.Settle();
  EXPECT_EQ(x[0].weights, x[1].weights);
}

TEST(Exchange, MergesADiffOnceHoweverOftenItComes) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  const FrameBytes diff = x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(10, 2.0f));
  for (int i = 0; i < 5; ++i) x.Give(0, diff);
  EXPECT_EQ(x[0].weights[chunk * 10], 2);
  EXPECT_EQ(x.exchange(0).stats().diffs_merged, 1u);
  EXPECT_EQ(x.exchange(0).stats().drops[DropReason::kOld], 4u);
}

// All frames of one call form one batch of operations.
TEST(Exchange, TakesWhatComesTogetherAsWhatComesInTurn) {
  Cluster x({.nodes = 3});
  const uint32_t chunk = x.ChunkOf(0);
  const FrameBytes one = x.ForgeDiff(1, 0, chunk, 1, std::vector<float>(10, 2.0f));
  const FrameBytes two = x.ForgeDiff(2, 0, chunk, 1, std::vector<float>(10, 40.0f));
  const FrameBytes three = x.ForgeDiff(1, 0, chunk, 2, std::vector<float>(10, 100.0f));
  const std::span<const std::byte> frames[] = {one.view(), two.view(), one.view(), three.view()};
  x.exchange(0).Receive(frames, x.now());
  EXPECT_EQ(x[0].weights[chunk * 10], 142);
}

TEST(Exchange, SendsPayloadsFromWhereTheyAreIfDirect) {
  Cluster x({.direct = true});
  for (size_t i = 0; i < 40; ++i) x[0].weights[i] += 1;
  x[0].exchange->SetProgress(++x[0].iterations);
  x.Run(3);
  std::vector<PostedFrame> room(64);
  std::map<FrameType, int> seen;
  for (int tick = 0; tick < 40; ++tick) {
    x.Add(0, tick, 1);
    const size_t count = x.exchange(0).Send(room, x.now());
    for (size_t i = 0; i < count; ++i) {
      const FrameBytes frame(room[i].head, room[i].payload);
      const FrameHeader h = frame.decoded().header;
      const auto* at = reinterpret_cast<const float*>(room[i].payload.data());
      if (h.type == FrameType::kPosition || h.type == FrameType::kDiff) {
        const auto& array = h.type == FrameType::kDiff ? x[0].pending : x[0].weights;
        EXPECT_EQ(at, array.data() + h.chunk * 10);
      }
      EXPECT_EQ(h.payload_unchecked, h.type == FrameType::kPosition);
      ++seen[h.type];
      x.exchange(0).Release(room[i].slot);
    }
    x.Tick();
  }
  EXPECT_GT(seen[FrameType::kPosition], 0);
  EXPECT_GT(seen[FrameType::kDiff], 0);
}

// With the minimum number of slots and a transport that returns them slowly, the exchange is
// slow but loses nothing.
TEST(Exchange, LosesNothingWhenItsSlotsAreExhausted) {
  Cluster x({.nodes = 3, .size = 400, .slots = 8, .faults = {.rate = 3}});
  for (int tick = 0; tick < 200; ++tick) {
    for (size_t node : {0, 1, 2}) x.Add(node, 3 * ((tick * 7) % 133) + node, 1);
    x.Tick();
  }
  // The transport keeps these slots for a while.
  std::vector<PostedFrame> room(8);
  const size_t count = x.exchange(0).Send(room, x.now());
  for (int tick = 0; tick < 20; ++tick) x.Tick();
  for (size_t i = 0; i < count; ++i) x.exchange(0).Release(room[i].slot);
  x.Settle();
  float sum = 0;
  for (const float w : x[0].weights) sum += w;
  EXPECT_EQ(sum, 600);
  EXPECT_EQ(x[0].weights, x[1].weights);
  EXPECT_EQ(x[0].weights, x[2].weights);
}

TEST(Exchange, TakesNothingWhenAllSlotsAreAway) {
  Cluster x({.slots = 8});
  std::vector<PostedFrame> room(8), away;
  for (int tick = 0; tick < 200 && away.size() < 8; ++tick) {
    x.Add(1, tick % 40, 1);
    x.Add(0, tick % 40, 1);
    x[1].exchange->Receive({}, x.now());
    const size_t count = x.exchange(1).Send(room, x.now());
    away.insert(away.end(), room.begin(), room.begin() + count);
    x.Tick();
    x.Run(8);  // a heartbeat takes the next slot
  }
  const float made = x[1].weights[0];
  x.Run(20);
  EXPECT_GE(x[1].weights[0], made);
  for (const PostedFrame& out : away) x.exchange(1).Release(out.slot);
  x.Settle();
  EXPECT_EQ(x[0].weights, x[1].weights);
}

TEST(Exchange, JoinsByListeningForOneSweep) {
  Cluster x({.nodes = 3, .joined = false});
  x[2].stopped = true;
  x.Run(100);
  for (int i = 0; i < 40; ++i) x.Add(0, i, static_cast<float>(i));
  x.Settle();
  x[2].stopped = false;
  x.Settle();
  EXPECT_EQ(x[2].weights, x[0].weights);
  EXPECT_EQ(x.exchange(2).stats().diffs_taken, 0u);
  EXPECT_EQ(x.exchange(2).global_iterations(), 40u);
}

TEST(Exchange, AMasterThatDiesTakesNothingOfTheOthersWithIt) {
  Cluster x({.nodes = 3});
  // Node 2 receives only heartbeats, then stops.
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    return to != 2 || IsType(frame, FrameType::kHeartbeat);
  };
  for (int i = 0; i < 40; ++i) x.Add(i % 2, i, 1);
  x.Run(30);
  x[2].stopped = true;
  x.delivers = nullptr;
  x.Run(100);
  x.Settle();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(x[0].weights[i], 1);
  EXPECT_EQ(x[0].weights, x[1].weights);
}

// Meanwhile another node may have been the master and have sent positions.
TEST(Exchange, DoesNotAnswerInAViewWhatItWasAskedInAnother) {
  Cluster x({.nodes = 3});
  const uint32_t chunk = x.ChunkOf(0);
  x.SetRoom(2);  // enough for membership, too little for replies
  x[2].stopped = true;
  x.Run(45);
  const ViewId before = x.exchange(1).view().id;
  std::byte claim[kChunkNumberBytes];
  EncodeChunkNumber({chunk, x.exchange(1).table().chunks[chunk].number}, claim);
  x.Give(1, x.Forge(0, x.HeaderOf(0, 1, FrameType::kTakeoverRequest), {}, claim));
  ASSERT_TRUE(x.exchange(1).table().chunks[chunk].takeover_ack_due);
  for (int i = 0; i < 60 && x.exchange(1).view().id == before; ++i) x.Tick();
  ASSERT_NE(x.exchange(1).view().id, before);
  // as before; it no longer sends requests
  ASSERT_EQ(x.exchange(1).table().chunks[chunk].owner, 0);
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameView view = frame.decoded();
    if (view.header.type != FrameType::kTakeoverAck || view.header.source != 1) return true;
    for (size_t at = 0; at < view.payload.size(); at += kChunkNumberBytes) {
      EXPECT_NE(DecodeChunkNumber(view.payload.data() + at).chunk, chunk);
    }
    return true;
  };
  x.SetRoom(256);
  x.Settle();
}

// Nodes that join at the same time have all chunks at about the same time, when there are few
// masters. Until their view counts them as synced they keep their progress, which is not lost.
TEST(Exchange, SendsNoDiffsBeforeTheViewCountsTheNodeAsSynced) {
  constexpr uint16_t kNodes = 6;
  constexpr int64_t kSize = 600;
  Cluster x({.nodes = kNodes, .size = kSize, .joined = false});
  int diffs = 0, waiting = 0;
  x.delivers = [&](uint16_t from, uint16_t, const FrameBytes& frame) {
    if (frame.decoded().header.type != FrameType::kDiff) return true;
    ++diffs;
    const Member* const self = x.exchange(from).view().Find(from);
    EXPECT_TRUE(self != nullptr && self->role == Role::kSynced);
    return true;
  };
  float sum = 0;
  for (int tick = 0; tick < 400; ++tick) {
    for (uint16_t node = 0; node < kNodes; ++node) {
      if (!x.exchange(node).view().id || x.exchange(node).table().unsynced > 0) continue;
      waiting += !x.exchange(node).in_sync();
      x.Add(node, (37 * tick + 11 * node) % kSize, 1);
      ++sum;
    }
    x.Tick();
  }
  x.Settle();
  EXPECT_GT(diffs, 0);
  EXPECT_GT(waiting, 0);
  for (uint16_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(std::accumulate(x[node].weights.begin(), x[node].weights.end(), 0.0f), sum);
  }
}

}  // namespace
}  // namespace millrace
