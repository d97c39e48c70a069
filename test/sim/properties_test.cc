// Properties of an exchange under fixed, not random, conditions; one property per test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "test/sim/cluster.h"
#include "test/sim/simulation.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

constexpr Codec kCodecs[] = {Codec::kFloat32, Codec::kBfloat16, Codec::kInt8, Codec::kInt4,
                             Codec::kSparse};

void ExpectHolds(const Scenario& scenario, Simulation* simulation) {
  const auto failure = simulation->Run();
  EXPECT_FALSE(failure) << failure->property << ": " << failure->detail << "\n  REPLAY='"
                        << ToText(scenario) << "'";
}

// In a sweep a node sends a position of each chunk that it masters, a diff of every other chunk,
// and to each other node a position acknowledgement with a heartbeat. A sweep therefore takes
// (chunks + nodes) / rate ticks, rounded up. A step that just misses a diff waits until that
// diff has been sent, merged and acknowledged. Then the step itself is sent, merged and
// published. This takes two sweeps of the worker and two of the master, each followed by one
// tick on the wire. A worker that receives no position waits for push_after, 3 ticks, before it
// sends.
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
        // The value of another node's lane is the number of that node's steps that have arrived.
        cluster.Tick([&](uint16_t node, std::vector<float>& weights) {
          for (size_t i = node; i < weights.size(); i += nodes) weights[i] += 1;
        });
        for (uint16_t node = 0; ticks > bound && node < nodes; ++node) {
          const auto least =
              *std::min_element(cluster[node].weights.begin(), cluster[node].weights.end());
          stalest = std::max(stalest, ticks + 1 - static_cast<int64_t>(least));
        }
      }
      EXPECT_LE(stalest, bound) << nodes << " nodes, " << rate << " frames a tick";
    }
  }
}

// One element grows so fast that an int8 level is much larger than the other element's step.
// That step is also far below the threshold of kSparse.
TEST(ErrorFeedback, CarriesProgressThatIsTooSmallForTheCodec) {
  for (const Codec codec : kCodecs) {
    ClusterOptions options{.codec = {codec, 0.7f}};
    Cluster cluster(options);
    const size_t small = cluster.ChunkOf(0) * 10 + 3, large = small + 6;
    constexpr int kSteps = 2000;
    constexpr float kStep = 0.01f, kLargeStep = 100;
    for (int i = 0; i < kSteps; ++i) {
      cluster.Tick([&](uint16_t node, std::vector<float>& weights) {
        if (node != 1) return;
        weights[small] += kStep;
        weights[large] += kLargeStep;
      });
    }
    // During training the master lacks a few levels of the diffs that it merges.
    EXPECT_NEAR(cluster[0].weights[small], kSteps * kStep, 10) << static_cast<int>(codec);
    EXPECT_GT(cluster[0].weights[small], kSteps * kStep / 4) << static_cast<int>(codec);
    cluster.Settle();
    const double left = codec == Codec::kSparse ? 0.7 : 0.01;
    EXPECT_NEAR(cluster[0].weights[small], kSteps * kStep, left) << static_cast<int>(codec);
    EXPECT_NEAR(cluster[0].weights[large], kSteps * kLargeStep, 1) << static_cast<int>(codec);
  }
}

TEST(Idleness, EndsWithTheFirstProgressOfAnyNode) {
  for (uint16_t first = 0; first < 4; ++first) {
    Cluster cluster({.nodes = 4});
    const uint64_t before = cluster.frames();
    for (int i = 0; i < 300; ++i) cluster.Tick();
    EXPECT_EQ(cluster.frames(), before);
    cluster[first].weights[7] += 5;
    cluster.Tick([](uint16_t, std::vector<float>&) {});
    for (int i = 0; i < 10; ++i) cluster.Tick();
    for (uint16_t node = 0; node < 4; ++node) EXPECT_EQ(cluster[node].weights[7], 5);
    cluster.Settle();
  }
}

// ---- A convex problem: noisy gradients of sum h (w - t)^2 / 2 ---------------

constexpr int64_t kDimensions = 256;

double LossOf(uint64_t seed, uint16_t nodes, Codec codec, Codec position_codec, int steps) {
  ClusterOptions options{.nodes = nodes, .size = kDimensions, .chunk_floats = 32};
  options.codec = {codec, 0.02f};
  options.position_codec = position_codec;
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
  cluster.Flush();
  double loss = 0;
  for (int64_t i = 0; i < kDimensions; ++i) {
    const double error = cluster[0].weights[i] - target[i];
    loss += curvature[i] * error * error / 2;
  }
  return loss;
}

// Mean over several problems with independent noise.
double LossAfter(uint16_t nodes, Codec codec, Codec position_codec, int steps) {
  constexpr int kProblems = 8;
  double sum = 0;
  for (int i = 0; i < kProblems; ++i) {
    sum += LossOf(test::Seed() + i, nodes, codec, position_codec, steps);
  }
  return sum / kProblems;
}

// For equal total steps, the loss of several nodes is within a factor of 1.5 of one node's:
// early, while the distance shrinks, and late, when only noise remains.
TEST(Convergence, IsThatOfOneNodeAfterAsManyStepsWhateverTheCodec) {
  std::vector<std::pair<Codec, Codec>> pairs;
  for (const Codec codec : kCodecs) pairs.emplace_back(codec, Codec::kFloat32);
  pairs.emplace_back(Codec::kFloat32, Codec::kBfloat16);
  pairs.emplace_back(Codec::kInt8, Codec::kInt8);
  pairs.emplace_back(Codec::kInt4, Codec::kInt4);
  for (const int steps : {400, 3200}) {
    const double alone = LossAfter(1, Codec::kFloat32, Codec::kFloat32, steps);
    for (const uint16_t nodes : {2, 4, 8}) {
      for (const auto& [codec, position_codec] : pairs) {
        const double together = LossAfter(nodes, codec, position_codec, steps);
        EXPECT_LT(together, 1.5 * alone)
            << nodes << " nodes, codec " << static_cast<int>(codec) << ", of positions "
            << static_cast<int>(position_codec) << ", " << steps << " steps";
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
  Simulation simulation(s);
  ExpectHolds(s, &simulation);
  EXPECT_GT(simulation.summary().diffs_merged, 100u);
}

// The remaining node has all progress of the others, to the last token. No node loses an
// incarnation.
TEST(Simulation, AllNodesButOneLeaveAtOnceAndLoseNothing) {
  uint64_t merged = 0;  // by the nodes that stay
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
      Simulation simulation(s);
      ExpectHolds(s, &simulation);
      if (loss == 0) {
        EXPECT_EQ(simulation.summary().incarnations_lost, 0u);
      }
      merged += simulation.summary().diffs_merged;
    }
  }
  EXPECT_GT(merged, 0u);
}

// With direct payloads, a transport may hold frames when their master crashes, and may read a
// payload after the master has reset.
TEST(Simulation, HoldsWhereTransportsReadPayloadsLate) {
  for (uint64_t i = 0; i < 60; ++i) {
    Scenario s = Draw(test::Seed() + i);
    s.direct = true;
    s.position_codec = Codec::kFloat32;
    s.linger = 12;
    s.faults.corrupt = 0;
    Simulation simulation(s);
    ExpectHolds(s, &simulation);
    if (HasFailure()) return;
  }
}

// At the end all replicas hold the survivors' progress: Simulation checks every token of a node
// that lost no incarnation. A sweep takes several ticks; the test crashes a master at each of them.
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
      Simulation simulation(s);
      ExpectHolds(s, &simulation);
      EXPECT_EQ(simulation.summary().incarnations_lost, 1u);
      EXPECT_GE(simulation.summary().takeovers, 6u);
      if (HasFailure()) return;
    }
  }
}

TEST(Simulation, IsTheSameRunForTheSameSeed) {
  for (uint64_t i = 0; i < 20; ++i) {
    const Scenario s = Draw(test::Seed() + i);
    Simulation one(s), two(s);
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
    Simulation one(s), two(again);
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
