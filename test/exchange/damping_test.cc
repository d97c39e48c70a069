#include "exchange/protocol/damping.h"

#include <gtest/gtest.h>

#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::Cluster;

TEST(Damping, LeavesFreshExchangesAsTheyAre) {
  for (const size_t members : {1, 2, 3, 64}) {
    for (const double iterations : {0.0, 1.0, kFreshIterations}) {
      EXPECT_EQ(DampedShare(iterations, members), 1) << members;
    }
  }
  EXPECT_EQ(DampedShare(1e9, 1), 1);  // no other node adds progress
}

TEST(Damping, GoesFromAddingTowardsAveragingAsExchangesGrowStale) {
  for (const size_t members : {2, 3, 5, 64}) {
    float before = 1;
    for (double iterations = kFreshIterations + 1; iterations < 1e6; iterations *= 1.5) {
      const float share = DampedShare(iterations, members);
      EXPECT_LE(share, before);
      if (iterations < 50) {
        EXPECT_LT(share, before);
      }
      EXPECT_GT(share, 0);
      before = share;
    }
    // The master's own progress plus a share of all other nodes'.
    EXPECT_NEAR(1 + before * static_cast<float>(members - 1), kStaleGain, 1e-3);
  }
}

TEST(TakeDelay, TakesNoShortPauseForAFreshExchange) {
  TakeDelay delay;
  EXPECT_LT(delay.Share({100, 50, 2}), 0.3f);
  delay.OnTaken({100, 50, 2});
  const float next = delay.Share({101, 50, 2});
  EXPECT_LT(next, 0.3f);
  uint64_t clock = 101;
  for (int takes = 0; takes < 20; ++takes, ++clock) {
    delay.OnTaken({clock, 50, 2});
    delay.Share({clock + 1, 50, 2});
  }
  EXPECT_EQ(delay.Last(2), 1);  // many short intervals do
}

TEST(TakeDelay, CountsOthersThatItHasNotHeardAsQuickAsItself) {
  TakeDelay delay;
  EXPECT_EQ(delay.Share({10, 10, 5}), DampedShare(50, 5));
  TakeDelay slow;
  EXPECT_EQ(slow.Share({200, 10, 5}), DampedShare(200, 5));  // others' iterations as received
}

TEST(TakeDelay, CountsWhatWasTrainedSinceTheLastTakeAtTheEndToo) {
  TakeDelay delay;
  EXPECT_EQ(delay.ShareAtEnd({30, 15, 2}), DampedShare(30, 2));
  delay.OnTaken({30, 15, 2});
  EXPECT_EQ(delay.ShareAtEnd({30, 15, 2}), DampedShare(30, 2));
}

// Nodes take single steps; each step reaches all nodes before the next one.
TEST(DampedExchange, IsTheUndampedOneBitByBitWhereExchangesAreFresh) {
  std::vector<std::vector<float>> weights[2];
  for (const bool damping : {false, true}) {
    Cluster x({.nodes = 2, .damping = damping});
    for (int step = 0; step < 50; ++step) {
      x.Add(step % 2, step % 60, 0.1f * static_cast<float>(step + 1));
      x.Run(12);
    }
    x.Settle();
    for (size_t node : {0, 1}) weights[damping].push_back(x[node].weights);
  }
  EXPECT_EQ(weights[0], weights[1]);
}

// A worker whose frames are lost for a hundred steps.
class StaleWorker : public testing::Test {
 protected:
  static constexpr int kSteps = 100;

  void SetUp() override {
    x_.delivers = [](uint16_t, uint16_t to, const sim::FrameBytes&) { return to == 1; };
    for (int step = 0; step < kSteps; ++step) x_.Add(1, weight(), 1);
    x_.delivers = nullptr;
    x_.Run(60);
  }
  int64_t weight() const { return chunk_ * 10 + 3; }
  float at(size_t node) { return x_[node].weights[weight()]; }

  Cluster x_{{.nodes = 2, .damping = true}};
  const uint32_t chunk_ = x_.ChunkOf(0);
};

TEST_F(StaleWorker, AddsAShareAndKeepsTheRest) {
  EXPECT_NEAR(at(0), kSteps * DampedShare(2 * kSteps, 2), 1e-3);
  EXPECT_EQ(at(1), kSteps);  // its own gradients take all of it into account
}

TEST_F(StaleWorker, AddsNoMoreWhileNobodyTrains) {
  const float before = at(0);
  x_.Settle();
  x_.Run(200);
  EXPECT_EQ(at(0), before);
}

TEST_F(StaleWorker, AddsMoreAsTrainingGoesOn) {
  const float before = at(0);
  for (int step = 0; step < 40; ++step) {
    x_.Add(step % 2, weight() + 1, 1);
    x_.Run(12);
  }
  EXPECT_GT(at(0), before + 1);
  x_.Settle();
  EXPECT_EQ(at(0), kSteps);  // fresh exchanges lose nothing
}

TEST_F(StaleWorker, DropsTheRestAtTheEnd) {
  for (size_t node : {0, 1}) x_.exchange(node).Flush();
  x_.Settle();
  EXPECT_EQ(at(0), at(1));
  EXPECT_EQ(x_[0].weights, x_[1].weights);
  EXPECT_LT(at(0), kSteps / 2);
  EXPECT_GT(at(0), 0);
}

// An exchange must not drop progress from another segment.
TEST(DampedExchange, PassesAllOnAtTheEndWhereItIsToldTo) {
  Cluster x({.nodes = 2, .damping = true, .passes_all_on = true});
  const int64_t weight = x.ChunkOf(0) * 10 + 3;
  for (int step = 0; step < 100; ++step) x.Add(1, weight, 1);
  x.Run(60);
  EXPECT_LT(x[0].weights[weight], 50);
  for (size_t node : {0, 1}) x.exchange(node).Flush();
  x.Settle();
  for (size_t node : {0, 1}) EXPECT_EQ(x[node].weights[weight], 100);
}

TEST_F(StaleWorker, LeavesWithTheRestDropped) {
  x_.exchange(1).Leave();
  x_.Run(300);
  EXPECT_TRUE(x_.exchange(1).left());
  EXPECT_TRUE(x_.exchange(1).delivered());
  EXPECT_LT(at(0), kSteps / 2);
}

}  // namespace
}  // namespace millrace
