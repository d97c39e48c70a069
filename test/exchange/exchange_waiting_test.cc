// Frames of an exchange while its transport is blocked or its peers do not answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exchange/protocol/exchange.h"
#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

// Number of frames of a type that wait at a node, by chunk.
std::map<uint32_t, int> WaitingAt(Cluster& x, size_t node, FrameType type) {
  std::map<uint32_t, int> waiting;
  for (const PostedFrame& out : x[node].held) {
    const FrameHeader header = FrameBytes(out.head, out.payload).decoded().header;
    if (header.type == type) ++waiting[header.chunk];
  }
  return waiting;
}

TEST(WaitingFrames, HoldOnePositionOfAChunkWhateverProgressComes) {
  for (const bool direct : {false, true}) {
    Cluster x({.direct = direct});
    x[0].stuck = true;
    for (int tick = 0; tick < 40; ++tick) {
      x.Step(0);
      x.Tick();
      for (const auto& [chunk, count] : WaitingAt(x, 0, FrameType::kPosition)) {
        ASSERT_EQ(count, 1) << "chunk " << chunk << ", tick " << tick;
      }
    }
    EXPECT_EQ(WaitingAt(x, 0, FrameType::kPosition).size(), x.exchange(0).table().owned.size());
    // Progress made meanwhile follows.
    x[0].stuck = false;
    x.Settle();
    for (int i = 0; i < 60; ++i) ASSERT_EQ(x[1].weights[i], 40);
  }
}

TEST(WaitingFrames, HoldADiffOnceHoweverLongItIsNotAnswered) {
  for (const bool direct : {false, true}) {
    Cluster x({.direct = direct});
    x[1].stuck = true;
    x.Step(1);
    x.Run(50);  // twelve retransmit timeouts
    const std::map<uint32_t, int> waiting = WaitingAt(x, 1, FrameType::kDiff);
    EXPECT_EQ(waiting.size(), x.exchange(0).table().owned.size());
    for (const auto& [chunk, count] : waiting) EXPECT_EQ(count, 1) << "chunk " << chunk;
    EXPECT_EQ(x.exchange(1).stats().resends, 0u);
    x[1].stuck = false;
    // A diff that was sent and lost is sent again.
    bool loses = true;
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
      return !loses || frame.decoded().header.type != FrameType::kDiff;
    };
    x.Run(8);
    EXPECT_GT(x.exchange(1).stats().resends, 0u);
    loses = false;
    x.Settle();
    EXPECT_EQ(x[0].weights, x[1].weights);
  }
}

TEST(WaitingFrames, KeepNoSlotsFromDiffsAndAnswers) {
  Cluster x({.size = 2000, .slots = 32});
  x[1].stuck = true;
  for (int tick = 0; tick < 20; ++tick) {
    for (const size_t node : {0, 1}) x.Step(node);
    x.Tick();
  }
  EXPECT_GE(WaitingAt(x, 1, FrameType::kPosition).size(), 8u);
  EXPECT_GE(WaitingAt(x, 1, FrameType::kDiff).size(), 12u);
  EXPECT_GE(WaitingAt(x, 1, FrameType::kHeartbeat).size(), 1u);
  x[1].stuck = false;
  x.Settle();
  EXPECT_EQ(x[0].weights, x[1].weights);
  EXPECT_EQ(x[0].weights[7], 40);
}

// A timeout derived from the fastest master's round trip is too short for a slow master, and
// retransmitted diffs give no round trip samples.
TEST(Worker, WaitsForASlowMasterAsLongAsItTakesAlthoughOthersAreQuick) {
  Cluster x({.nodes = 3});
  constexpr int kSlow = 30;  // ticks; to other masters, diffs are sent again after 4
  x.delivers = [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    if (to == 2) x.network().Inject(from, to, frame, x.tick() + kSlow);
    return to != 2;
  };
  const auto run = [&](int ticks) {
    for (int i = 0; i < ticks; ++i) {
      x.Step(1);
      x.Tick();
    }
  };
  run(400);  // until the round trip is known
  const uint64_t resends = x.exchange(1).stats().resends,
                 merged = x.exchange(2).stats().diffs_merged;
  run(400);
  EXPECT_EQ(x.exchange(1).stats().resends, resends);
  EXPECT_GT(x.exchange(2).stats().diffs_merged, merged + 10);
  EXPECT_EQ(x.exchange(1).metrics().peer(0).resends, 0u);
  x.delivers = nullptr;
}

// Answers took four peer timeouts while the nodes trained. At the end there is little to send, so
// the time to a retransmission is no longer that long.
TEST(Flush, HasWhatIsLostAfterItSentAgainWithinThePeerTimeoutWhateverAnswersTookBefore) {
  for (const FrameType type : {FrameType::kDiff, FrameType::kPosition}) {
    Cluster x({});
    constexpr int kSlow = 240, kPeerTimeout = 60;  // ticks
    x.delivers = [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
      if (frame.decoded().header.type >= FrameType::kHeartbeat) return true;
      x.network().Inject(from, to, frame, x.tick() + kSlow);
      return false;
    };
    for (int tick = 0; tick < 6000; ++tick) {
      for (const size_t node : {0, 1}) x.Step(node);
      x.Tick();
    }
    x.delivers = nullptr;
    x.Settle();
    std::set<uint32_t> lost;  // chunks of which the first frame of the type was lost
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
      const FrameHeader header = frame.decoded().header;
      return header.type != type || !lost.insert(header.chunk).second;
    };
    for (const size_t node : {0, 1, 1}) x.Step(node);  // different progress
    for (const size_t node : {0, 1}) x.exchange(node).Flush();
    const int64_t begin = x.tick();
    while (x[0].weights != x[1].weights && x.tick() < begin + 4000) x.Tick();
    EXPECT_EQ(lost.size(), static_cast<size_t>(x.chunks()));
    EXPECT_LE(x.tick() - begin, 2 * kPeerTimeout);
  }
}

// A frozen master answers none of a hundred diffs. It has received them all; sending all of them
// again would delay its other work when it continues.
TEST(Worker, TriesAFewOfTheDiffsThatAMasterDoesNotAnswerAndNoneThatItWill) {
  Cluster x({.size = 2000});
  bool frozen = false;
  std::vector<FrameBytes> waiting;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    if (to == 0 && frozen) waiting.push_back(frame);
    return to != 0 || !frozen;
  };
  const auto run = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      x.Step(1);
      x.Tick();
    }
  };
  run(100);
  EXPECT_EQ(x.exchange(1).stats().resends, 0u);
  const uint64_t before = x.exchange(1).stats().sent[static_cast<size_t>(FrameType::kDiff)];
  frozen = true;
  run(50);  // timeouts of 4 ticks or the observed round trip, doubling
  const uint64_t tried = x.exchange(1).stats().resends;
  EXPECT_GE(tried, 1u);
  EXPECT_LE(tried, 48u);
  EXPECT_GE(x.exchange(1).stats().sent[static_cast<size_t>(FrameType::kDiff)], before + 50);
  frozen = false;
  for (const FrameBytes& frame : waiting) x.network().Inject(1, 0, frame, x.tick());
  run(50);
  EXPECT_EQ(x.exchange(1).stats().resends, tried);
  x.Settle();
  EXPECT_EQ(x[0].weights, x[1].weights);
}

// A quarter of all diffs is lost. Answers to later diffs prove the loss, so that the lost diffs
// need not wait for probes, of which few are sent at a time.
TEST(Worker, SendsLostDiffsAgainOnceThoseThatOvertookThemAreAnswered) {
  Cluster x({.size = 2000});
  struct Lost {
    uint32_t seq;
    int tick;
  };
  int tick = 0, longest = 0;
  std::map<uint32_t, Lost> lost;  // by chunk, until the diff is sent again
  uint64_t again = 0;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameHeader header = frame.decoded().header;
    if (to != 0 || header.type != FrameType::kDiff) return true;
    const auto found = lost.find(header.chunk);
    if (found != lost.end()) {
      EXPECT_EQ(header.seq, found->second.seq);
      longest = std::max(longest, tick - found->second.tick);
      lost.erase(found);
      ++again;
      return true;
    }
    if (tick < 100 || tick >= 300 || (header.chunk + header.seq) % 4 != 0) return true;
    lost[header.chunk] = {header.seq, tick};
    return false;
  };
  for (; tick < 400; ++tick) {
    x.Step(1);
    x.Tick();
  }
  EXPECT_TRUE(lost.empty());
  EXPECT_GE(again, 1000u);
  EXPECT_EQ(x.exchange(1).stats().resends, again);
  EXPECT_LE(longest, 8);  // timeouts of 4 to 6 ticks, and 2 until a diff is answered
  x.Settle();
  EXPECT_EQ(x[0].weights, x[1].weights);
}

// Peers that receive no positions cannot answer them, so that sending more is useless.
TEST(Master, SlowsDownWhereNobodyAnswersAndGoesOnWithTheFirstAnswer) {
  Cluster x({.nodes = 3});
  bool reaches = false;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameHeader header = frame.decoded().header;
    return header.type >= FrameType::kHeartbeat || header.source != 0 || reaches;
  };
  const uint64_t owned = x.exchange(0).table().owned.size(), before = x.positions_sent(0);
  for (int tick = 0; tick < 400; ++tick) {
    x.Add(0, tick % 60, 1);
    x.Tick();
  }
  // Eight without delay, then one per interval; intervals double from 4 to 60 ticks, plus up to
  // half.
  EXPECT_LE(x.positions_sent(0) - before, owned * (8 + 14));
  EXPECT_GE(x.positions_sent(0) - before, owned * (8 + 5));
  reaches = true;
  x.Run(95);  // until the longest interval has passed
  const uint64_t then = x.positions_sent(0);
  for (int tick = 0; tick < 40; ++tick) {
    x.Add(0, tick, 1);
    x.Tick();
  }
  EXPECT_EQ(x.positions_sent(0) - then, 40 * owned);
  x.Settle();
  EXPECT_EQ(x[0].weights, x[2].weights);
}

// One worker that answers suffices; the master must not wait for the others.
TEST(Master, KeepsItsPaceForTheOneThatAnswers) {
  Cluster x({.nodes = 3});
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    return to != 2 || frame.decoded().header.type >= FrameType::kHeartbeat;
  };
  const uint64_t owned = x.exchange(0).table().owned.size(), before = x.positions_sent(0);
  for (int tick = 0; tick < 100; ++tick) {
    x.Add(0, tick % 60, 1);
    x.Tick();
  }
  EXPECT_EQ(x.positions_sent(0) - before, 100 * owned);
}

}  // namespace
}  // namespace millrace
