// Exchanges that have more to send than they may.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

void Throttle(Cluster& x) {
  for (size_t node = 0; node < x.size(); ++node) x.exchange(node).SetThrottled(true);
}

// Positions that node 0 sends in four ticks; all its weights change in each tick.
uint64_t PositionsWithoutAnswers(bool throttled) {
  Cluster x({.nodes = 2});
  if (throttled) Throttle(x);
  x.delivers = [](uint16_t, uint16_t to, const FrameBytes&) { return to != 0; };
  const uint64_t before = x.positions_sent(0);
  for (int tick = 0; tick < 4; ++tick) {
    x.Step(0);
    x.Tick();
  }
  return x.positions_sent(0) - before;
}

TEST(ThrottledExchange, SendsNoPositionAgainBeforeItWasAnswered) {
  EXPECT_EQ(PositionsWithoutAnswers(true), 3u);  // it masters half of the chunks
  EXPECT_EQ(PositionsWithoutAnswers(false), 12u);
}

TEST(ThrottledExchange, SendsChunksMoreOftenInWhichProgressIsLarge) {
  Cluster x({.nodes = 2, .size = 400, .chunk_floats = 10});
  Throttle(x);
  std::vector<int> positions(40);
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    FrameView view;
    EXPECT_EQ(DecodeFrame(frame.view(), &view), DropReason::kNone);
    if (view.header.type == FrameType::kPosition) ++positions[view.header.chunk];
    return true;
  };
  // Each node makes a hundred times as much progress in every fifth chunk.
  for (int tick = 0; tick < 600; ++tick) {
    for (size_t node : {0, 1}) {
      for (int64_t weight = 0; weight < 400; ++weight) {
        x.Add(node, weight, weight / 10 % 5 == 0 ? 1.0f : 0.01f);
      }
    }
    x.Tick();
  }
  int often = 0, seldom = 0;
  for (int chunk = 0; chunk < 40; ++chunk) (chunk % 5 == 0 ? often : seldom) += positions[chunk];
  EXPECT_GT(often * 4, seldom * 2);  // a quarter as many chunks, each at least twice as often
  EXPECT_GT(seldom, 32 * 10);
}

struct Traffic {
  double diffs_per_position = 0;
  uint64_t min_positions = 0;  // of the chunk that was sent least often
};

// Counts the traffic of eight nodes that make progress in every `every`th tick, one after the
// other, except node 7, which does so `slow` times as seldom. Their links carry four frames a tick.
Traffic TrafficOfEight(int slow, int every = 1) {
  Cluster x({.nodes = 8, .size = 800, .chunk_floats = 10});
  x.SetRoom(4);
  std::vector<int> positions(80);
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    if (h.type == FrameType::kPosition) positions[h.chunk] += to == (h.source + 1) % 8;
    return true;
  };
  uint64_t merged = 0, sent = 0;
  constexpr int kTicks = 1200, kCounted = 200;
  for (int tick = 0; tick < kTicks; ++tick) {
    Throttle(x);
    if (tick == kCounted) {
      std::fill(positions.begin(), positions.end(), 0);
      for (size_t node = 0; node < 8; ++node) {
        merged -= x.exchange(node).stats().diffs_merged;
        sent -= x.positions_sent(node);
      }
    }
    for (size_t node = 0; node < 8; ++node) {
      const int turn = tick + static_cast<int>(node) * every / 8;
      if (turn % (node < 7 ? every : slow * every) == 0) x.Step(node);
    }
    x.Tick();
  }
  for (size_t node = 0; node < 8; ++node) {
    merged += x.exchange(node).stats().diffs_merged;
    sent += x.positions_sent(node);
  }
  return {static_cast<double>(merged) / static_cast<double>(sent),
          static_cast<uint64_t>(*std::min_element(positions.begin(), positions.end()))};
}

// The bytes of a slow link are for diffs as much as for positions.
TEST(ThrottledExchange, SendsAPositionWhenMostWorkersHaveAnsweredTheLastOne) {
  EXPECT_GT(TrafficOfEight(1).diffs_per_position, 5.5);
}

// Where iterations are longer than exchanges, most workers have nothing to answer with.
TEST(ThrottledExchange, DoesNotWaitForWorkersThatHaveMadeNoIteration) {
  EXPECT_LT(TrafficOfEight(1, 40).diffs_per_position, 3);
}

TEST(ThrottledExchange, IsNotHeldUpByOneSlowWorker) {
  const uint64_t even = TrafficOfEight(1).min_positions;
  EXPECT_GT(2 * TrafficOfEight(60).min_positions, even);
}

// Positions of node 0, of each of its chunks on average, and the least of one, while two nodes make
// 300 iterations each; in one chunk their progress is a hundred times as large as in the others.
std::pair<double, int> PositionsWithSpacing(int64_t spacing) {
  Cluster x({.nodes = 2, .size = 400, .chunk_floats = 10});
  std::vector<int> positions(40);
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    if (h.type == FrameType::kPosition && h.source == 0) ++positions[h.chunk];
    return true;
  };
  for (int tick = 0; tick < 300; ++tick) {
    for (size_t node : {0, 1}) x.exchange(node).SetThrottled(true, spacing);
    x.Tick([](uint16_t, std::vector<float>& weights) {
      for (size_t i = 0; i < weights.size(); ++i) weights[i] += i < 10 ? 1 : 0.01f;
    });
  }
  std::erase(positions, 0);
  const double sum = std::accumulate(positions.begin(), positions.end(), 0);
  return {sum / static_cast<double>(positions.size()),
          *std::min_element(positions.begin(), positions.end())};
}

// With iterations of all nodes between two positions of a chunk: 600 in all.
TEST(ThrottledExchange, SendsNoChunkMoreOftenThanItsSpacing) {
  const auto [mean, least] = PositionsWithSpacing(20);
  EXPECT_LE(mean, 600.0 / 20 + 1);
  EXPECT_GE(least, 600 / 20 / 2);  // equal turns, whatever the progress
  EXPECT_GT(PositionsWithSpacing(0).first, 2 * mean);
}

// A position that is lost would otherwise wait for iterations that nobody makes.
TEST(ThrottledExchange, RepeatsALostPositionWhateverTheSpacing) {
  Cluster x({.nodes = 2});
  bool delivers = false;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes&) { return delivers; };
  for (size_t node : {0, 1}) x.exchange(node).SetThrottled(true, 5);
  for (int iteration = 0; iteration < 5; ++iteration) x.Step(0);
  x.Run(3);
  delivers = true;
  for (int tick = 0; tick < 2000 && x[1].weights != x[0].weights; ++tick) x.Tick();
  EXPECT_EQ(x[1].weights, x[0].weights);
}

TEST(ThrottledExchange, ComesToTheSameWeights) {
  for (const bool direct : {false, true}) {
    Cluster x({.nodes = 3, .size = 400, .direct = direct});
    Throttle(x);
    int count = 0;
    x.delivers = [&](uint16_t, uint16_t, const FrameBytes&) { return ++count % 5 != 0; };
    std::vector<float> sums = x[0].weights;
    for (int tick = 0; tick < 200; ++tick) {
      const int64_t weight = 37 * tick % 400;
      x.Add(tick % 3, weight, 1);
      sums[weight] += 1;
      x.Tick();
    }
    x.Settle();
    for (size_t node : {0, 1, 2}) EXPECT_EQ(x[node].weights, sums);
  }
}

// The end of a run must not wait for answers.
TEST(ThrottledExchange, IsThrottledNoMoreAfterFlush) {
  Cluster x({.nodes = 2});
  Throttle(x);
  x.exchange(0).Flush();
  x.exchange(0).SetThrottled(true);
  x.delivers = [](uint16_t, uint16_t to, const FrameBytes&) { return to != 0; };
  const uint64_t before = x.positions_sent(0);
  for (int tick = 0; tick < 4; ++tick) {
    x.Step(0);
    x.Tick();
  }
  EXPECT_EQ(x.positions_sent(0) - before, 12u);
}

// Gives node 1 the frames that were held back for it.
void GiveAll(Cluster* x, std::vector<FrameBytes>* held) {
  for (const FrameBytes& frame : std::exchange(*held, {})) x->Give(1, frame);
}

// Repeatedly delays the answers to one chunk's diffs by `ticks` relative to the others. Returns
// the number of diffs sent again.
uint64_t ResendsWithALateChunk(bool throttled, int ticks) {
  Cluster x({.nodes = 2});
  if (throttled) Throttle(x);
  int tick = 0, shut_until = 0;
  std::vector<FrameBytes> held;
  uint32_t late = kNoChunk;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    FrameView view;
    EXPECT_EQ(DecodeFrame(frame.view(), &view), DropReason::kNone);
    const FrameHeader& h = view.header;
    if (to == 0 && h.type == FrameType::kDiff) {
      if (late == kNoChunk) late = h.chunk;
      if (h.chunk == late && tick >= shut_until + 4) shut_until = tick + ticks;
    }
    const bool shut =
        to == 1 && h.type == FrameType::kPosition && h.chunk == late && tick < shut_until;
    if (shut) held.push_back(frame);
    return !shut;
  };
  for (; tick < 1500; ++tick) {
    if (tick == shut_until) GiveAll(&x, &held);
    for (size_t node : {0, 1}) {
      for (int64_t weight = 0; weight < 60; ++weight) x.Add(node, weight, 1);
    }
    x.Tick();
  }
  return x.exchange(1).stats().resends;
}

// A throttled master answers in the order of progress, not of the diffs.
TEST(ThrottledExchange, DoesNotTakeADiffForLostBecauseLaterOnesWereAnswered) {
  EXPECT_GT(ResendsWithALateChunk(false, 16), 50u);
  EXPECT_LT(ResendsWithALateChunk(true, 16), 10u);
}

// Delays the answers to the diffs of half of the chunks of node 0 by `ticks` for a while, as a
// master does that has more urgent ones to send. Returns the number of diffs sent again.
uint64_t ResendsWithLateChunks(bool throttled, int ticks) {
  Cluster x({.nodes = 2, .size = 800, .chunk_floats = 10});
  if (throttled) Throttle(x);
  int tick = 0;
  std::vector<FrameBytes> held;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    const bool shut =
        to == 1 && h.type == FrameType::kPosition && h.chunk % 2 == 0 && tick % (2 * ticks) < ticks;
    if (shut) held.push_back(frame);
    return !shut;
  };
  for (; tick < 40 * ticks; ++tick) {
    if (tick % (2 * ticks) == ticks) GiveAll(&x, &held);
    for (size_t node : {0, 1}) x.Step(node);
    x.Tick();
  }
  return x.exchange(1).stats().resends;
}

// The worker asks for one of many late answers at a time.
TEST(ThrottledExchange, AsksForOneOfManyLateAnswers) {
  EXPECT_GT(ResendsWithLateChunks(false, 40), 500u);
  EXPECT_LT(ResendsWithLateChunks(true, 40), 100u);
}

// Ticks until a node that starts late has all weights. Two others train with large progress in a
// tenth of the chunks.
int TicksToJoin(bool throttled) {
  Cluster x({.nodes = 3, .size = 2000, .chunk_floats = 10});
  x.SetRoom(16);
  x[2].stopped = true;
  x.Settle();
  const auto train = [&] {
    for (size_t node : {0, 1}) {
      if (throttled) x.exchange(node).SetThrottled(true);
      for (int64_t weight = 0; weight < 2000; weight += 100) x.Add(node, weight, 1);
    }
    x.Tick();
  };
  for (int tick = 0; tick < 50; ++tick) train();
  x[2].stopped = false;
  for (int tick = 0; tick < 5000; ++tick) {
    const bool joined = x.exchange(2).view().id == x.exchange(0).view().id;
    if (joined && x.exchange(2).in_sync()) return tick;
    train();
  }
  return 5000;
}

TEST(ThrottledExchange, LetsANodeInAsSoonAsAnother) {
  const int ticks = TicksToJoin(false);
  EXPECT_LT(ticks, 100);
  EXPECT_LE(TicksToJoin(true), ticks + 5);
}

// Number of node 2's chunks without a new master yet, as nodes 0 and 1 see it.
int WithoutMaster(Cluster& x) {
  int count = 0;
  for (size_t node : {0, 1}) {
    for (const Chunk& chunk : x.exchange(node).table().chunks) {
      count += chunk.owner == 2 || chunk.state == ChunkState::kTakingOver || chunk.awaiting_master;
    }
  }
  return count;
}

// Waiting diffs and positions must not delay a takeover.
TEST(ThrottledExchange, TakesOverWhileMoreWaitsThanCanBeSent) {
  Cluster x({.nodes = 3, .size = 600, .chunk_floats = 10});
  x.SetRoom(4);
  Throttle(x);
  const auto train = [&](int ticks) {
    for (int tick = 0; tick < ticks; ++tick) {
      for (size_t node : {0, 1}) x.Step(node);
      x.Tick();
    }
  };
  train(50);
  x[2].stopped = true;
  int ticks = 0;
  for (; ticks < 1000 && (x.exchange(0).view().members.size() > 2 || WithoutMaster(x) > 0);
       ticks += 10) {
    train(10);
  }
  EXPECT_LE(ticks, 300);
}

// They must not delay a retransmitted diff either.
TEST(ThrottledExchange, SendsAgainWhatIsLostWhileMoreWaitsThanCanBeSent) {
  Cluster x({.nodes = 3, .size = 600, .chunk_floats = 10});
  x.SetRoom(4);
  Throttle(x);
  int lost = 0;
  std::vector<int> lost_at(60, -1);
  int tick = 0, longest = 0;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& frame) {
    const FrameHeader header = frame.decoded().header;
    if (header.type != FrameType::kDiff || header.source != 0) return true;
    int& at = lost_at[header.chunk];
    if (at >= 0) {
      longest = std::max(longest, tick - at);
      at = -1;
      return true;
    }
    if (tick < 100 || tick >= 400 || header.seq % 4 != 0) return true;
    at = tick;
    ++lost;
    return false;
  };
  for (; tick < 1000; ++tick) {
    for (size_t node = 0; node < 3; ++node) x.Step(node);
    x.Tick();
  }
  EXPECT_GE(lost, 20);
  EXPECT_EQ(std::count_if(lost_at.begin(), lost_at.end(), [](int at) { return at >= 0; }), 0);
  EXPECT_LE(longest, 200);
}

// Regardless of the round trip times measured while links were busy.
TEST(ThrottledExchange, FlushSendsAgainAtOnceWhatIsPending) {
  Cluster x({.nodes = 2, .size = 600, .chunk_floats = 10});
  Throttle(x);
  x.delivers = [](uint16_t, uint16_t, const FrameBytes& frame) {
    return frame.decoded().header.type != FrameType::kDiff;
  };
  for (int tick = 0; tick < 200; ++tick) {
    x.Step(0);
    x.Tick();
  }
  x.delivers = nullptr;
  const uint64_t before = x.exchange(0).stats().resends;
  x.exchange(0).Flush();
  x.Run(3);
  EXPECT_GE(x.exchange(0).stats().resends - before, 30u);  // node 1 masters half of the chunks
}

// Ticks until node 5 sees what nodes 1 and 2 do after `idle` ticks without progress, before which
// node 3 took part.
int64_t TicksAfterIdle(int64_t idle) {
  Cluster x({.nodes = 6});
  const int64_t weight = 10 * int64_t{x.ChunkOf(0)};
  const auto tick = [&](std::vector<size_t> active) {
    Throttle(x);
    for (const size_t node : active) x.Add(node, weight, 1);
    x.Tick();
  };
  for (int i = 0; i < 60; ++i) tick({1, 2, 3});
  for (int64_t i = 0; i < idle; ++i) tick({});
  const float before = x[5].weights[weight];
  tick({1, 2});
  int64_t ticks = 1;
  for (; x[5].weights[weight] == before && ticks < 1000; ++ticks) tick({});
  return ticks;
}

TEST(ThrottledExchange, SendsInTimeWhatWorkersDoAfterAnIdleTime) {
  for (const int64_t idle : {20, 200, 2000}) EXPECT_LE(TicksAfterIdle(idle), 60) << idle;
}

// Node 2, which changed the chunk before, makes no progress any more.
TEST(ThrottledExchange, SendsInTimeWhatOneOfTwoWorkersDoesAfterAnIdleTime) {
  Cluster x({.nodes = 3});
  const int64_t weight = 10 * int64_t{x.ChunkOf(0)};
  for (int i = 0; i < 60; ++i) {
    Throttle(x);
    for (const size_t node : {1, 2}) x.Add(node, weight, 1);
    x.Tick();
  }
  for (int i = 0; i < 2000; ++i) {
    Throttle(x);
    x.Tick();
  }
  const float before = x[2].weights[weight];
  int ticks = 0;
  for (; x[2].weights[weight] == before && ticks < 1000; ++ticks) {
    Throttle(x);
    x.Add(1, weight, 1);
    x.Tick();
  }
  EXPECT_LE(ticks, 60);
}

}  // namespace
}  // namespace millrace
