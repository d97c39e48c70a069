// What an exchange does under conditions that are given, not drawn: one property a test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "test/sim/cluster.h"
#include "test/sim/world.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

constexpr Codec kCodecs[] = {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kSparse};

void ExpectHolds(const Scenario& scenario, World* world) {
  const auto failure = world->Run();
  EXPECT_FALSE(failure) << failure->property << ": " << failure->detail << "\n  REPLAY='"
                        << ToText(scenario) << "'";
}

// A node sends, in a sweep, a position of each chunk that it masters, a difference of
// each other one, and a list of what it has seen to each other node, with a heartbeat:
// a sweep takes (chunks + nodes) / rate ticks, rounded up. A step that just misses a
// diff waits until that one was sent, merged and acknowledged, and then is sent,
// merged and published itself: twice a sweep of the worker's and one of the master's,
// and a tick on the wire after each. A worker that hears of no position waits for
// push_after, 3 ticks, before it sends at all.
TEST(Staleness, IsBoundedByFourSweepsWhenLinksDeliver) {
  for (const uint16_t nodes : {2, 3, 6}) {
    for (const int64_t rate : {8, 16, 64}) {
      ClusterOptions options{.nodes = nodes, .size = 24 * nodes, .chunk_floats = nodes};
      options.faults.rate = rate;
      Cluster cluster(options);
      const int64_t sweep = (cluster.chunks() + nodes + rate - 1) / rate;
      const int64_t bound = 4 * (sweep + 1) + 3;
      int64_t ticks = 0, stalest = 0;
      for (; ticks < 400; ++ticks) {
        // What a node holds of another's lane is the tick whose step it has seen last.
        cluster.Tick([&](uint16_t node, std::vector<float>& weights) {
          for (size_t i = node; i < weights.size(); i += nodes) weights[i] += 1;
        });
        for (uint16_t node = 0; ticks > bound && node < nodes; ++node) {
          const auto least =
              *std::min_element(cluster.weights(node).begin(), cluster.weights(node).end());
          stalest = std::max(stalest, ticks + 1 - static_cast<int64_t>(least));
        }
      }
      EXPECT_LE(stalest, bound) << nodes << " nodes, " << rate << " frames a tick";
    }
  }
}

// One element grows so fast that a level of int8 is far more than another one's step,
// and a step is far below the threshold of kSparse.
TEST(ErrorFeedback, CarriesProgressThatIsTooSmallForTheCodec) {
  for (const Codec codec : kCodecs) {
    ClusterOptions options{.codec = {codec, 0.7f}};
    Cluster cluster(options);
    uint32_t chunk = 0;
    while (cluster.owner(chunk) != 0) ++chunk;
    const size_t small = chunk * 16 + 3, large = chunk * 16 + 9;
    constexpr int kSteps = 2000;
    constexpr float kStep = 0.01f, kLargeStep = 100;
    for (int i = 0; i < kSteps; ++i) {
      cluster.Tick([&](uint16_t node, std::vector<float>& weights) {
        if (node != 1) return;
        weights[small] += kStep;
        weights[large] += kLargeStep;
      });
    }
    // While it goes on, what the master lacks is a few levels of what it takes at once.
    EXPECT_NEAR(cluster.weights(0)[small], kSteps * kStep, 10) << static_cast<int>(codec);
    EXPECT_GT(cluster.weights(0)[small], kSteps * kStep / 4) << static_cast<int>(codec);
    cluster.Settle();
    const double left = codec == Codec::kSparse ? 0.7 : 0.01;
    EXPECT_NEAR(cluster.weights(0)[small], kSteps * kStep, left) << static_cast<int>(codec);
    EXPECT_NEAR(cluster.weights(0)[large], kSteps * kLargeStep, 1) << static_cast<int>(codec);
  }
}

TEST(Idleness, EndsWithTheFirstProgressOfAnyNode) {
  for (uint16_t first = 0; first < 4; ++first) {
    Cluster cluster({.nodes = 4});
    const uint64_t before = cluster.frames();
    for (int i = 0; i < 300; ++i) cluster.Tick();
    EXPECT_EQ(cluster.frames(), before);
    cluster.weights(first)[7] += 5;
    cluster.Tick([](uint16_t, std::vector<float>&) {});
    for (int i = 0; i < 10; ++i) cluster.Tick();
    for (uint16_t node = 0; node < 4; ++node) EXPECT_EQ(cluster.weights(node)[7], 5);
    cluster.Settle();
  }
}

// ---- A convex problem: noisy gradients of sum h (w - t)^2 / 2 ---------------

constexpr int64_t kDimensions = 256;

double LossOf(uint64_t seed, uint16_t nodes, Codec codec, int steps) {
  ClusterOptions options{.nodes = nodes, .size = kDimensions, .chunk_floats = 32};
  options.codec = {codec, 0.02f};
  options.seed = seed;
  Cluster cluster(options);
  Rng problem(seed, {1});
  std::vector<float> target(kDimensions), curvature(kDimensions);
  for (int64_t i = 0; i < kDimensions; ++i) {
    target[i] = problem.Gaussian();
    curvature[i] = 0.1f + 0.9f * problem.Uniform();
  }
  std::vector<Rng> noise;
  for (uint16_t node = 0; node < nodes; ++node) noise.push_back({seed, {2, node}});
  constexpr float kRate = 0.01f;
  for (int done = 0; done < steps; done += nodes) {
    cluster.Tick([&](uint16_t node, std::vector<float>& weights) {
      for (int64_t i = 0; i < kDimensions; ++i) {
        const float gradient = curvature[i] * (weights[i] - target[i]) + noise[node].Gaussian();
        weights[i] -= kRate * gradient;
      }
    });
  }
  cluster.Settle();
  double loss = 0;
  for (int64_t i = 0; i < kDimensions; ++i) {
    const double error = cluster.weights(0)[i] - target[i];
    loss += curvature[i] * error * error / 2;
  }
  return loss;
}

// The mean of several problems, each with noise of its own.
double LossAfter(uint16_t nodes, Codec codec, int steps) {
  constexpr int kProblems = 8;
  double sum = 0;
  for (int i = 0; i < kProblems; ++i) sum += LossOf(test::Seed() + i, nodes, codec, steps);
  return sum / kProblems;
}

// After as many steps in all, several nodes are as far as one: within a factor of 1.5,
// early, when the distance shrinks, and late, when noise is all there is.
TEST(Convergence, IsThatOfOneNodeAfterAsManyStepsWhateverTheCodec) {
  for (const int steps : {400, 3200}) {
    const double alone = LossAfter(1, Codec::kFloat32, steps);
    for (const uint16_t nodes : {2, 4, 8}) {
      for (const Codec codec : kCodecs) {
        const double together = LossAfter(nodes, codec, steps);
        EXPECT_LT(together, 1.5 * alone)
            << nodes << " nodes, codec " << static_cast<int>(codec) << ", " << steps << " steps";
        EXPECT_GT(together, alone / 1.5);
      }
    }
  }
}

// ---- Whole runs -------------------------------------------------------------

TEST(Simulation, HoldsWith64NodesAndFaults) {
  Scenario s;
  s.seed = test::Seed();
  s.nodes = 64;
  s.chunks = 70;
  s.active = 80;
  s.late = 3;
  s.faults.loss = 0.03;
  s.faults.duplicate = 0.05;
  s.faults.corrupt = 0.02;
  s.faults.delay_max = 4;
  s.events = {{Event::Kind::kRestart, 20, 61, 0, 0},
              {Event::Kind::kRestart, 25, 62, 0, 0},
              {Event::Kind::kRestart, 30, 63, 0, 0},
              {Event::Kind::kCrash, 150, 5, 0, 0},
              {Event::Kind::kLeave, 160, 9, 0, 0}};
  s.active = 200;
  World world(s);
  ExpectHolds(s, &world);
  EXPECT_GT(world.summary().diffs_merged, 100u);
}

// Whoever stays has all that the others did, to the last token: nobody loses a life.
TEST(Simulation, AllNodesButOneLeaveAtOnceAndLoseNothing) {
  uint64_t merged = 0;  // by those that stay
  for (const uint16_t nodes : {16, 64}) {
    for (const double loss : {0.0, 0.05}) {
      Scenario s;
      s.seed = test::Seed() + nodes;
      s.nodes = nodes;
      s.chunks = nodes + 6;
      s.active = 160;
      s.faults.loss = loss;
      s.faults.delay_max = 3;
      const auto stays = static_cast<uint16_t>(s.seed % nodes);
      for (uint16_t node = 0; node < nodes; ++node) {
        if (node != stays) s.events.push_back({Event::Kind::kLeave, 150, node, 0, 0});
      }
      World world(s);
      ExpectHolds(s, &world);
      if (loss == 0) {
        EXPECT_EQ(world.summary().lives_lost, 0u);
      }
      merged += world.summary().diffs_merged;
    }
  }
  EXPECT_GT(merged, 0u);
}

// What one transport still holds when its master dies, and what it reads late when the master
// has begun anew: for the frames that are read from the weights themselves.
TEST(Simulation, HoldsWhereTransportsReadPayloadsLate) {
  for (uint64_t i = 0; i < 60; ++i) {
    Scenario s = Draw(test::Seed() + i);
    s.direct = true;
    s.linger = 12;
    s.faults.corrupt = 0;
    World world(s);
    ExpectHolds(s, &world);
    if (HasFailure()) return;
  }
}

// The survivors' progress is everywhere in the end: World looks for every token of a
// node that has lost no life. A sweep takes several ticks; every one of them is tried.
TEST(Simulation, AMasterKilledAmidASweepTakesNothingOfTheSurvivorsAlong) {
  for (int64_t tick = 150; tick < 190; ++tick) {
    for (const Codec codec : {Codec::kFloat32, Codec::kInt8}) {
      Scenario s;
      s.seed = test::Seed() + tick;
      s.nodes = 4;
      s.chunks = 24;
      s.codec = codec;
      s.active = 260;
      s.busy = 0.9;
      s.faults.rate = 8;
      s.events = {{Event::Kind::kCrash, tick, static_cast<uint16_t>(tick % 4), 0, 0}};
      World world(s);
      ExpectHolds(s, &world);
      EXPECT_EQ(world.summary().lives_lost, 1u);
      EXPECT_GE(world.summary().takeovers, 6u);
      if (HasFailure()) return;
    }
  }
}

TEST(Simulation, IsTheSameRunForTheSameSeed) {
  for (uint64_t i = 0; i < 20; ++i) {
    const Scenario s = Draw(test::Seed() + i);
    World one(s), two(s);
    ExpectHolds(s, &one);
    ExpectHolds(s, &two);
    EXPECT_EQ(one.summary().digest, two.summary().digest);
    EXPECT_NE(one.summary().digest, 0u);
  }
}

TEST(Simulation, IsTheSameRunWhenReadBackFromText) {
  for (uint64_t i = 0; i < 40; ++i) {
    const Scenario s = Draw(test::Seed() + i);
    const Scenario again = Parse(ToText(s));
    EXPECT_TRUE(again == s) << ToText(s);
    World one(s), two(again);
    one.Run();
    two.Run();
    EXPECT_EQ(one.summary().digest, two.summary().digest) << ToText(s);
  }
}

TEST(Scenario, IsNotReadFromTextThatIsNone) {
  for (const char* text : {"nodes", "nodes=x", "colour=3", "event=z:1:0:0:0", "event=c:1"}) {
    EXPECT_CONTAINS(test::ErrorOf([&] { Parse(text); }), "scenario: ");
  }
}

}  // namespace
}  // namespace millrace::sim
