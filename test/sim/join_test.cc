// Nodes join beside one that does not answer, or while the node that has the weights fails.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

// Lets node 0 and all nodes but `deaf` reach each other. Node `deaf` receives nothing from node 0.
void Deafen(Cluster* x, uint16_t deaf) {
  x->delivers = [deaf](uint16_t from, uint16_t to, const FrameBytes&) {
    return from != 0 || to != deaf;
  };
}

TEST(Join, TakesAFewPeerTimeoutsBesideANodeThatDoesNotAnswer) {
  for (const int start : {0, 10, 50, 100, 200, 500}) {
    Cluster x({.nodes = 4, .joined = false});
    Deafen(&x, 3);
    x[2].stopped = x[3].stopped = true;
    x.Run(200);
    x[3].stopped = false;
    x.Run(start);
    x[2].stopped = false;
    int ticks = 0;
    for (; ticks < 1000 && !x.exchange(2).in_sync(); ++ticks) x.Tick();
    EXPECT_LE(ticks, 150) << "start " << start;  // the peer timeout is 60 ticks
  }
}

// Ticks until nodes 0 to 22 of 24 are in sync, where all but the first start within 100 ticks.
int TicksOfMany(bool deaf, double loss, int64_t delay, uint64_t seed) {
  constexpr uint16_t kNodes = 24;
  Cluster x({.nodes = kNodes,
             .size = 240,
             .chunk_floats = 10,
             .faults = {.loss = loss, .delay_max = delay, .rate = 256},
             .seed = seed,
             .joined = false});
  if (deaf) Deafen(&x, kNodes - 1);
  for (size_t node = 1; node < kNodes; ++node) x[node].stopped = true;
  for (int tick = 0; tick < 6000; ++tick) {
    bool all = true;
    for (size_t node = 1; node < kNodes; ++node) {
      if (tick == 50 + static_cast<int>(node * 37 % 100)) x[node].stopped = false;
      all &= !x[node].stopped && (node == kNodes - 1 || x.exchange(node).in_sync());
    }
    if (all) return tick;
    x.Tick();
  }
  return 6000;
}

TEST(Join, OfManyNodesIsLittleSlowerBesideOneThatDoesNotAnswer) {
  for (const double loss : {0.0, 0.05}) {
    for (const int64_t delay : {1, 4}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        const int alone = TicksOfMany(false, loss, delay, seed);
        EXPECT_LE(TicksOfMany(true, loss, delay, seed), alone + 300)
            << "loss " << loss << ", delay " << delay << ", seed " << seed;
      }
    }
  }
}

constexpr int64_t kWeights = 20'000;

// Four nodes, of which node 0 has the weights of the run, all 5, and the others, all 0, have joined
// with some of the chunks.
class PartlyJoined : public testing::Test {
 protected:
  PartlyJoined() : x_({.nodes = 4, .size = kWeights, .chunk_floats = 10, .joined = false}) {
    std::ranges::fill(x_[0].weights, 5.0f);
    while (!HasSome(1) || !HasSome(2) || !HasSome(3)) {
      if (x_.tick() > 400) throw Error("cluster: nodes do not join");
      x_.Tick();
    }
  }
  int64_t OfTheRun(size_t node) { return std::ranges::count(x_[node].weights, 5.0f); }
  bool HasSome(size_t node) { return OfTheRun(node) > 0; }

  Cluster x_;
};

// The node stands still in the pass that follows a change of view, say, for 1.5 peer timeouts.
TEST_F(PartlyJoined, TakesAllWeightsOfANodeThatStoodStill) {
  x_[0].stopped = true;
  x_.Run(90);
  x_[0].stopped = false;
  x_.Settle();
  for (size_t node = 0; node < 4; ++node) {
    EXPECT_EQ(OfTheRun(node), kWeights);
    EXPECT_EQ(x_.exchange(node).stats().resets, 0u);
  }
}

TEST_F(PartlyJoined, WaitsForANodeWithAllWeightsIfTheOnlyOneDies) {
  x_[0].stopped = true;
  for (int i = 0; i < 40; ++i) {
    x_.Run(50);
    for (const size_t node : {1, 2, 3}) ASSERT_FALSE(x_.exchange(node).in_sync());
  }
  for (const size_t node : {1, 2, 3}) EXPECT_TRUE(x_.exchange(node).membership().LacksWeights());
  // It starts again, with other weights.
  x_.network().Clear(0);
  ExchangeConfig config = ConfigOf({.nodes = 4}, 0);
  config.incarnation = 100;
  x_[0].Start(config, kWeights, 10);
  std::ranges::fill(x_[0].weights, 7.0f);
  x_[0].stopped = false;
  x_.Settle();
  for (size_t node = 0; node < 4; ++node) {
    EXPECT_EQ(std::ranges::count(x_[node].weights, 7.0f), kWeights);
  }
}

// Node 1 receives all chunks before node 0 dies.
TEST_F(PartlyJoined, GoesOnWithTheWeightsOfTheRunIfOneNodeHasAll) {
  while (OfTheRun(1) < kWeights) {
    ASSERT_LT(x_.tick(), 2000);
    x_.Tick();
  }
  x_[0].stopped = true;
  x_.Settle();
  for (const size_t node : {1, 2, 3}) EXPECT_EQ(OfTheRun(node), kWeights);
}

// Nodes that have received nothing begin with their own weights, all of them.
TEST(Join, BeginsAnewIfTheOnlyNodeWithWeightsDiesBeforeItHasSentAny) {
  Cluster x({.nodes = 3, .size = 100, .chunk_floats = 10, .joined = false});
  std::ranges::fill(x[0].weights, 5.0f);
  x.delivers = [](uint16_t, uint16_t, const FrameBytes& frame) {
    return frame.decoded().header.type != FrameType::kPosition;
  };
  while (x.exchange(0).view().members.size() < 3) {
    ASSERT_LT(x.tick(), 400);
    x.Tick();
  }
  x.Run(5);
  x.delivers = nullptr;
  x.network().Clear(1);
  x.network().Clear(2);
  x[0].stopped = true;
  x.Settle();
  for (const size_t node : {1, 2}) EXPECT_EQ(std::ranges::count(x[node].weights, 0.0f), 100);
}

}  // namespace
}  // namespace millrace::sim
