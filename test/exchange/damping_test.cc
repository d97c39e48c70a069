#include "exchange/protocol/damping.h"

#include <gtest/gtest.h>

#include "test/sim/cluster.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;

TEST(Damping, LeavesTheExchangesOfTwoNodesInEachIterationAsTheyAre) {
  for (const size_t members : {1, 2, 3, 64}) {
    for (const double iterations : {0.0, 1.0, kAddedIterations}) {
      EXPECT_EQ(DampedShare(iterations, members), 1) << members;
    }
  }
  EXPECT_EQ(DampedShare(1e9, 1), 1);  // no other node adds progress
}

TEST(Damping, GoesFromAddingTowardsAveragingAsExchangesGrowStale) {
  for (const size_t members : {2, 3, 5, 64}) {
    float before = 1;
    for (double iterations = kAddedIterations + 1; iterations < 1e6; iterations *= 1.5) {
      const float share = DampedShare(iterations, members);
      EXPECT_LE(share, before);
      if (iterations < 5) {
        EXPECT_LT(share, before);
      }
      EXPECT_GT(share, 0);
      before = share;
    }
    // The master's own progress plus a share of all other nodes'.
    EXPECT_NEAR(1 + before * static_cast<float>(members - 1), kStaleGain, 1e-3);
  }
}

// Three nodes or more, which each see the others' last step at the earliest, nearly average where
// their steps are long, also in fresh exchanges: with momentum, delays of a few steps are what
// makes them oscillate.
TEST(Damping, HoldsBackMostOfAStepOfManyNodes) {
  for (const size_t members : {3, 4, 5, 8}) {
    const float share = DampedShare(static_cast<double>(members), members);
    EXPECT_LE(share * static_cast<float>(members - 1), 0.3f) << members;
    EXPECT_EQ(IsStaleShare(share, members), members > kFreshIterations);
  }
}

TEST(TakeDelay, TakesNoShortPauseForAFreshExchange) {
  TakeDelay delay;
  EXPECT_LT(delay.Share({100, 50, 2}), 0.3f);
  delay.OnTaken({100, 50, 2});
  const float next = delay.Share({101, 51, 2});
  EXPECT_LT(next, 0.3f);
  uint64_t clock = 101, own = 51;
  for (int takes = 0; takes < 20; ++takes, ++clock, ++own) {
    delay.OnTaken({clock, own, 2});
    delay.Share({clock + 1, own + 1, 2});
  }
  EXPECT_EQ(delay.Last(2), 1);  // many short intervals do
}

TEST(TakeDelay, TakesNoneOfTheRestUntilSolversOnCopiesHaveMerged) {
  for (const bool on_copies : {false, true}) {
    TakeDelay delay;
    EXPECT_GT(delay.Share({100, 50, 2, on_copies}), 0);
    delay.OnTaken({100, 50, 2, on_copies});
    EXPECT_EQ(delay.Share({100, 50, 2, on_copies}), 0);
    EXPECT_EQ(delay.Share({150, 50, 2, on_copies}) == 0, on_copies);  // other nodes have trained
    EXPECT_GT(delay.Share({150, 51, 2, on_copies}), 0);
  }
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

TEST(TakeDelay, CountsNoIterationsWhereAClockHasFallen) {
  TakeDelay delay;
  delay.OnTaken({1000, 50, 2});
  EXPECT_EQ(delay.ShareAtEnd({990, 50, 2}), 1);
  EXPECT_EQ(delay.Share({990, 51, 2}), 1);
  EXPECT_EQ(delay.Share({1002, 2, 2}), 1);
  EXPECT_LT(delay.Share({1010, 2, 2}), 1);
}

TEST(TakeDelay, KeepsTheLowerBitsOfClocks) {
  TakeDelay delay;
  delay.OnTaken({0xffffffff, 0x1fffffffe, 2});
  EXPECT_EQ(delay.Share({0x100000001, 0x1ffffffff, 2}), 1);
  EXPECT_EQ(delay.Share({0x100000009, 0x1ffffffff, 2}), DampedShare(10, 2));
}

TEST(TakeDelay, ForgetsWhatAMastersChunkHadBefore) {
  TakeDelay delay;
  EXPECT_LT(delay.Share({100, 50, 2}), 1);
  delay.Restart({5000, 2500, 2});
  EXPECT_EQ(delay.Share({5002, 2501, 2}), 1);
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

// A third node joins after many steps. The progress of a former master is as fresh as that of all
// other workers.
TEST(DampedExchange, TakesTheShareOfAFreshExchangeWhereAMasterGivesAChunkUp) {
  constexpr float kStep = 0.1f;
  Cluster x({.nodes = 3, .damping = true, .joined = false});
  x[2].stopped = true;
  x.Settle();
  std::vector<uint16_t> before;
  for (uint32_t chunk = 0; chunk < x.chunks(); ++chunk) before.push_back(x.owner(chunk));
  const auto step = [&](int node, int64_t weight) {
    x.Add(node, weight, kStep);
    x.Run(12);
  };
  for (int i = 0; i < 400; ++i) step(i % 2, i % 60);
  x[2].stopped = false;
  x.Settle();
  int given_up = 0;
  for (uint32_t chunk = 0; chunk < x.chunks(); ++chunk) {
    if (x.owner(chunk) == before[chunk]) continue;
    ++given_up;
    const float& weight = x[x.owner(chunk)].weights[chunk * 10];
    const float then = weight;
    step(before[chunk], chunk * 10);
    EXPECT_NEAR(weight - then, kStep * DampedShare(3, 3), 1e-4) << chunk;
  }
  EXPECT_GT(given_up, 0);
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

// A solver of node 1 trains on weights of its own for 50 iterations at a time. Meanwhile positions
// arrive in each tick.
class LocalSolver : public testing::Test {
 protected:
  static constexpr int kPeriod = 50;

  void TrainAndMerge(float progress) {
    for (int i = 1; i <= kPeriod; ++i) {
      x_.Add(0, weight() + 1, 1);
      if (i == kPeriod) x_[1].weights[weight()] += progress;
      x_[1].exchange->SetProgress(++x_[1].iterations, i == kPeriod ? 0 : i);
      x_.Run(4);
    }
  }
  int64_t weight() const { return chunk_ * 10 + 3; }
  float at(size_t node) { return x_[node].weights[weight()]; }

  Cluster x_{{.nodes = 2, .damping = true}};
  const uint32_t chunk_ = x_.ChunkOf(0);
};

TEST_F(LocalSolver, ItsProgressIsAsStaleAsItsPeriodIsLong) {
  TrainAndMerge(0);
  TrainAndMerge(100);
  const float share = 100 * DampedShare(2 * kPeriod, 2);
  EXPECT_NEAR(at(0), share, 1);
  EXPECT_EQ(at(1), 100);
  for (int i = 1; i < kPeriod; ++i) {
    x_.Add(0, weight() + 1, 1);
    x_[1].exchange->SetProgress(++x_[1].iterations, i);
    x_.Run(4);
  }
  EXPECT_NEAR(at(0), share, 1);  // its gradients have not seen the rest yet
  EXPECT_EQ(at(1), 100);
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

// Node 1 is a relay. While its last share is on its way, its other segment merges 100 into its
// weights, and tells this one `before` or after the position that acknowledges the share. Returns
// what arrives at node 0.
float ArrivesOfALateMerge(bool before) {
  Cluster x({.nodes = 3, .damping = true});
  const int64_t weight = 10 * int64_t{x.ChunkOf(0)};
  for (int tick = 0; tick < 50; ++tick) {
    x.Tick([](uint16_t, std::vector<float>&) {}, 10);  // so that exchanges are stale
  }
  x.Add(1, weight, 1);
  x.Run(30);
  for (size_t node : {0, 1, 2}) x.exchange(node).Flush();
  bool merged = false;
  x.delivers = [&](uint16_t from, uint16_t to, const FrameBytes& frame) {
    const FrameHeader h = frame.decoded().header;
    if (merged || h.type != FrameType::kPosition || to != 1 || from != 0) return true;
    if (h.chunk * 10 != weight || !x.exchange(1).table().chunks[h.chunk].pending) return true;
    merged = true;
    x[1].weights[weight] += 100;
    if (before) x.exchange(1).WeightsChanged();
    return true;
  };
  x.Run(5);
  EXPECT_TRUE(merged);
  x.exchange(1).WeightsChanged();
  x.delivers = nullptr;
  x.Settle();
  return x[0].weights[weight];
}

// The rest of the relay's own progress is dropped, and nothing else.
TEST(DampedExchange, DropsNothingThatAnotherSegmentMergesAtTheEnd) {
  const float reported = ArrivesOfALateMerge(true);
  EXPECT_GT(reported, 1);
  EXPECT_EQ(ArrivesOfALateMerge(false), reported);
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
