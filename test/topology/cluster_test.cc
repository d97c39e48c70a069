#include "cluster/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "test/support/cluster_node.h"
#include "test/support/eventually.h"
#include "test/support/support.h"
#include "transport/faulty/transport.h"
#include "transport/loopback/transport.h"

namespace millrace {
namespace {

using test::Eventually;

constexpr int64_t kFloats = 3000;

// One node's endpoint of a segment.
struct End {
  LoopbackHub* hub;
  uint16_t node, nodes;
  bool may_begin = true;
  double loss = 0;  // share of received frames that are dropped
  int heartbeat_ms = 20;
  uint16_t leader = 0;
  bool sparse = false;  // sparse codec, with threshold 0.01
  int64_t chunk_floats = 0;
  int64_t begin = 0, floats = -1;  // range of the weights; -1: to the end
  bool above = false;
  int64_t peer_timeout_ms = 2000;
};

std::unique_ptr<Transport> Connect(const End& end) {
  FaultPlan plan;
  plan.seed = test::Seed() + end.node;
  plan.receive.drop = end.loss;
  return std::make_unique<FaultyTransport>(end.hub->Connect(end.node), plan);
}

std::vector<test::SegmentEnd> Connect(const std::vector<End>& ends) {
  std::vector<test::SegmentEnd> connected;
  for (const End& end : ends) {
    NetSegmentConfig config = test::EndConfig(end.node, end.nodes, test::NewIncarnation());
    config.leader = end.leader;
    config.exchange.sole_bootstrapper = end.leader != 0 && end.leader == end.node;
    config.exchange.heartbeat_ns = end.heartbeat_ms * 1'000'000;
    config.exchange.bootstrap_after_ns = end.may_begin ? 200'000'000 : -1;
    if (end.sparse) config.exchange.codec = {Codec::kSparse, 0.01f};
    config.chunk_floats = end.chunk_floats;
    config.exchange.peer_timeout_ns = end.peer_timeout_ms * 1'000'000;
    connected.push_back({std::move(config), Connect(end), end.begin, end.floats, end.above});
  }
  return connected;
}

class Machine : public test::ClusterNode {
 public:
  Machine(const std::vector<End>& ends, int64_t start, float value)
      : ClusterNode(Connect(ends), std::vector<float>(kFloats, value), start),
        slot_(clock().RegisterSolver()) {}
  // Iteration i of this machine adds 1 to weight i % kFloats. These sums are exact in float32, so a
  // diff that is lost, duplicated, reversed or misplaced changes some weight.
  void Iterate(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(clock().Claim(INT64_MAX));
      WithWeights([&](std::vector<float>& weights) { weights[made_++ % kFloats] += 1; });
      clock().Done(slot_);
    }
  }

 private:
  const int slot_;
  int made_ = 0;
};

// Expected weights after the machines have made the given numbers of iterations, all from `start`.
std::vector<float> After(const std::vector<int>& made, float start = 0) {
  std::vector<float> weights(kFloats, start);
  for (const int each : made) {
    for (int i = 0; i < each; ++i) weights[i % kFloats] += 1;
  }
  return weights;
}

// Failure message: the sum of the weights, and how many differ from `expected`.
std::string Diff(Machine& machine, const std::vector<float>& expected) {
  const std::vector<float> weights = machine.weights();
  double sum = 0;
  int wrong = 0;
  for (int64_t i = 0; i < kFloats; ++i) {
    sum += weights[i] - expected[i];
    wrong += weights[i] != expected[i];
  }
  return StrCat(wrong, " weights differ, by ", sum, " in all");
}

// Waits until the weights equal `expected` exactly.
testing::AssertionResult ComesTo(Machine& machine, const std::vector<float>& expected) {
  if (Eventually([&] { return machine.weights() == expected; })) return testing::AssertionSuccess();
  return testing::AssertionFailure() << Diff(machine, expected);
}

TEST(Cluster, SharesOneClockBetweenItsNodes) {
  LoopbackHub hub(LoopbackOptions{.nodes = 2});
  Machine a({{&hub, 0, 2}}, 5000, 1.0f);
  ASSERT_TRUE(Eventually([&] { return a.cluster().begun(); }));
  EXPECT_EQ(a.clock().global(), 5000);  // the count continues from the iteration of its weights
  Machine b({{&hub, 1, 2}}, 700, 3.0f);
  ASSERT_TRUE(Eventually([&] { return b.cluster().begun(); }));
  EXPECT_EQ(b.clock().global(), 5000);  // its own start value is discarded
  EXPECT_EQ(b.weights(), After({}, 1));
  a.Iterate(30);
  b.Iterate(12);
  EXPECT_TRUE(Eventually([&] { return a.clock().global() == 5042; })) << a.clock().global();
  EXPECT_TRUE(Eventually([&] { return b.clock().global() == 5042; })) << b.clock().global();
  for (Machine* m : {&a, &b}) EXPECT_TRUE(ComesTo(*m, After({30, 12}, 1)));
  EXPECT_EQ(a.clock().Claim(INT64_MAX), 5042);
  // Each iteration number is used once: numbers not used here are reported as remote iterations.
  int64_t reported = 0;
  for (const IterationRange& range : a.cluster().TakeRemoteIterations())
    reported += range.end - range.first;
  EXPECT_EQ(reported, 12);
  EXPECT_TRUE(a.cluster().TakeRemoteIterations().empty());
  EXPECT_TRUE(a.cluster().is_leader());
  EXPECT_FALSE(b.cluster().is_leader());
}

TEST(Cluster, CarriesProgressAndCountsThroughATreeOfSegments) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
  Machine a({{&upper, 0, 2}}, 100, 2.0f);
  Machine b({{&upper, 1, 2, false}, {&lower, 0, 2}}, 100, 2.0f);
  Machine c({{&lower, 1, 2, false}}, 100, 2.0f);
  std::vector<Machine*> all = {&a, &b, &c};
  for (Machine* m : all) ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  a.Iterate(10);
  b.Iterate(200);
  c.Iterate(3000);
  for (Machine* m : all) {
    EXPECT_TRUE(Eventually([&] { return m->clock().global() == 3310; })) << m->clock().global();
    EXPECT_TRUE(ComesTo(*m, After({10, 200, 3000}, 2)));
  }
}

// Every frame carries the iteration count, so over a lossy link the count arrives long before the
// corresponding progress.
TEST(Cluster, PassesOnWhatComesAfterItsCount) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
  Machine a({{&upper, 0, 2}}, 0, 0.0f);
  Machine b({{&upper, 1, 2, false}, {&lower, 0, 2, true, 0.4}}, 0, 0.0f);
  Machine c({{&lower, 1, 2, false}}, 0, 0.0f);
  for (Machine* m : {&a, &b, &c}) ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  for (int made = kFloats; made <= 2 * kFloats; made += kFloats) {
    c.Iterate(kFloats);
    ASSERT_TRUE(ComesTo(a, After({made})));
  }
}

// Makes progress that the sparse codec mostly holds back.
void Wander(Machine* machine, uint64_t stream, int times) {
  Rng rng(test::Seed(), {stream});
  for (int i = 0; i < times; ++i) {
    ASSERT_TRUE(machine->clock().Claim(INT64_MAX));
    machine->WithWeights([&](std::vector<float>& weights) {
      for (float& w : weights) w += 0.004f * static_cast<float>(rng.Uniform() - 0.5);
    });
    machine->clock().Done(0);
  }
}

TEST(Cluster, ComesToTheSameBitsThroughSparseSegmentsWhenItIsFlushed) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 3});
  const auto end = [](LoopbackHub* hub, uint16_t node, uint16_t nodes, bool may_begin) {
    return End{.hub = hub, .node = node, .nodes = nodes, .may_begin = may_begin, .sparse = true};
  };
  Machine a({end(&upper, 0, 2, true)}, 0, 0.0f);
  Machine b({end(&upper, 1, 2, false), end(&lower, 0, 3, true)}, 0, 0.0f);
  Machine c({end(&lower, 1, 3, false)}, 0, 0.0f);
  Machine d({end(&lower, 2, 3, false)}, 0, 0.0f);
  const std::vector<Machine*> all = {&a, &b, &c, &d};
  for (Machine* m : all) ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  for (uint64_t i = 0; i < 40; ++i) Wander(all[i % all.size()], i, 4);
  for (Machine* m : all) m->cluster().Flush();
  EXPECT_TRUE(Eventually([&] {
    const std::vector<float> expected = a.weights();
    return std::all_of(all.begin(), all.end(), [&](Machine* m) {
      return std::memcmp(m->weights().data(), expected.data(), kFloats * sizeof(float)) == 0;
    });
  }));
}

TEST(Cluster, LosesNothingOfANodeThatLeaves) {
  LoopbackHub hub(LoopbackOptions{.nodes = 3});
  Machine a({{&hub, 0, 3}}, 0, 0.0f);
  auto b = std::make_unique<Machine>(std::vector<End>{{&hub, 1, 3}}, 0, 0.0f);
  Machine c({{&hub, 2, 3}}, 0, 0.0f);
  ASSERT_TRUE(Eventually([&] { return a.cluster().members() == 3; }));
  ASSERT_TRUE(Eventually([&] { return b->cluster().begun() && c.cluster().begun(); }));
  b->Iterate(500);
  b->cluster().Leave();
  ASSERT_TRUE(Eventually([&] { return b->cluster().left(); }));
  EXPECT_TRUE(b->cluster().delivered());
  b.reset();
  c.Iterate(100);
  for (Machine* m : {&a, &c}) EXPECT_TRUE(ComesTo(*m, After({500, 100})));
  EXPECT_TRUE(Eventually([&] { return a.clock().global() == 600 && a.cluster().members() == 2; }));
}

// The nodes of one segment cannot see the leader of another segment.
TEST(Cluster, HasOneLeaderAlsoInATreeOfSegments) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
  auto a = std::make_unique<Machine>(std::vector<End>{{&upper, 0, 2}}, 0, 0.0f);
  Machine b({{&upper, 1, 2, false}, {.hub = &lower, .node = 1, .nodes = 2, .leader = 1}}, 0, 0.0f);
  Machine c({{.hub = &lower, .node = 0, .nodes = 2, .may_begin = false, .leader = 1}}, 0, 0.0f);
  const auto leaders = [&] {
    return std::string(a && a->cluster().is_leader() ? "a" : "") +
           (b.cluster().is_leader() ? "b" : "") + (c.cluster().is_leader() ? "c" : "");
  };
  for (Machine* m : {a.get(), &b, &c}) {
    ASSERT_TRUE(Eventually([&] { return m->cluster().in_sync(); }));
  }
  EXPECT_TRUE(Eventually([&] { return leaders() == "a"; })) << leaders();
  a->cluster().Leave();
  ASSERT_TRUE(Eventually([&] { return a->cluster().left(); }));
  a.reset();
  EXPECT_TRUE(Eventually([&] { return leaders() == "b"; })) << leaders();
  b.cluster().Leave();
  EXPECT_TRUE(Eventually([&] { return leaders() == "c"; })) << leaders();
}

// The last member of a segment has no peer that could confirm its leave.
TEST(Cluster, HasDeliveredAllWhereAWholeSegmentHasLeftBefore) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
  Machine a({{&upper, 0, 2}}, 0, 0.0f);
  Machine b({{&upper, 1, 2, false}, {&lower, 0, 2}}, 0, 0.0f);
  auto c = std::make_unique<Machine>(std::vector<End>{{&lower, 1, 2, false}}, 0, 0.0f);
  for (Machine* m : {&a, &b, c.get()}) {
    ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  }
  for (Machine* m : {c.get(), &b}) {
    m->Iterate(10);
    m->cluster().Leave();
    ASSERT_TRUE(Eventually([&] { return m->cluster().left(); }));
    EXPECT_TRUE(m->cluster().delivered());
    c.reset();
    ASSERT_TRUE(Eventually([&] { return b.cluster().segments()[1].net->state().members() == 1; }));
  }
}

// On a lossy link, a leaving node may learn late that it may leave.
TEST(Cluster, AnswersUntilThoseThatLeaveHaveTheirAnswers) {
  for (int round = 0; round < 2; ++round) {
    LoopbackHub hub(LoopbackOptions{.nodes = 2});
    auto a = std::make_unique<Machine>(std::vector<End>{{&hub, 0, 2, true, 0, 100}}, 0, 0.0f);
    Machine b({{&hub, 1, 2, false, 0.4, 100}}, 0, 0.0f);
    ASSERT_TRUE(Eventually([&] { return b.cluster().in_sync() && a->cluster().members() == 2; }));
    b.cluster().Leave();
    ASSERT_TRUE(Eventually([&] { return a->cluster().alone(); }));
    ASSERT_TRUE(Eventually([&] { return a->cluster().idle(); }));
    a.reset();
    EXPECT_TRUE(b.cluster().left());
    EXPECT_TRUE(b.cluster().delivered());
  }
}

// The weights that a node would evaluate and save: its own, overwritten where a master's are known.
std::vector<float> Merged(Machine* machine) {
  std::vector<float> merged = machine->weights();
  EXPECT_TRUE(machine->cluster().ReadMerged(merged.data(), [] { return false; }));
  return merged;
}

// Waits until no segment has merged anything for a while.
void AwaitRest(const std::vector<Machine*>& all) {
  uint64_t merges = 0;
  int still = 0;
  ASSERT_TRUE(Eventually([&] {
    uint64_t now = 0;
    for (Machine* m : all) {
      for (const ClusterSegment& segment : m->cluster().segments()) {
        now += segment.net->state().merges();
      }
    }
    still = now == merges ? still + 1 : 0;
    merges = now;
    return still == 20;
  }));
}

// Whether this node is master of weight `i` in `segment`.
bool Masters(Machine* machine, size_t segment, int64_t i) {
  const ClusterSegment& of = machine->cluster().segments()[segment];
  const auto chunk = static_cast<size_t>((i - of.begin) / of.net->chunk_floats());
  return of.net->exchange().table().chunks[chunk].state == ChunkState::kMaster;
}

// Adds progress that no exchange is notified of and that therefore stays local.
void AddUnreported(Machine* machine) {
  machine->WithWeights([](std::vector<float>& weights) {
    for (float& weight : weights) weight += 1;
  });
}

TEST(Cluster, ReadsMergedWeightsInATreeOfSegments) {
  LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
  const auto end = [](LoopbackHub* hub, uint16_t node, bool begins, bool above = false) {
    return End{.hub = hub,
               .node = node,
               .nodes = 2,
               .may_begin = begins,
               .chunk_floats = 100,
               .above = above};
  };
  Machine a({end(&upper, 0, true)}, 0, 2.0f);
  Machine b({end(&lower, 0, true, true), end(&upper, 1, false)}, 0, 2.0f);
  Machine c({end(&lower, 1, false)}, 0, 2.0f);
  const std::vector<Machine*> all = {&a, &b, &c};
  for (Machine* m : all) ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  AwaitRest(all);
  for (Machine* m : all) AddUnreported(m);
  for (Machine* m : all) {
    const std::vector<float> merged = Merged(m);
    int own = 0;
    for (int64_t i = 0; i < kFloats; ++i) {
      const bool masters = Masters(m, 0, i) && (m != &b || Masters(m, 1, i));
      own += masters;
      ASSERT_EQ(merged[i], masters ? 3.0f : 2.0f) << i;
    }
    if (m != &b) {
      EXPECT_GT(own, 0);
    }
    EXPECT_LT(own, kFloats);
  }
  // After a complete exchange, the merged weights equal those of every node.
  for (Machine* m : all) m->Iterate(10);
  for (Machine* m : all) EXPECT_TRUE(ComesTo(*m, After({10, 10, 10}, 5)));
  AwaitRest(all);
  for (Machine* m : all) EXPECT_EQ(Merged(m), m->weights());
}

// In the middle of a tree, the segment towards node 0 decides, whichever was created first.
TEST(Cluster, ReadsMergedWeightsOfTheSegmentTowardsTheTop) {
  for (const bool upper_first : {true, false}) {
    LoopbackHub upper(LoopbackOptions{.nodes = 2}), lower(LoopbackOptions{.nodes = 2});
    const auto end = [&lower](LoopbackHub* hub, uint16_t node, bool begins, bool above) {
      return End{.hub = hub,
                 .node = node,
                 .nodes = 2,
                 .may_begin = begins,
                 .leader = static_cast<uint16_t>(hub == &lower ? 1 : 0),
                 .chunk_floats = 100,
                 .above = above,
                 .peer_timeout_ms = 3'600'000};
    };
    auto a = std::make_unique<Machine>(std::vector<End>{end(&upper, 0, true, false)}, 0, 2.0f);
    // The segments assign chunks to nodes by these node numbers.
    std::vector<End> ends = {end(&upper, 1, false, false), end(&lower, 1, true, true)};
    if (!upper_first) std::swap(ends[0], ends[1]);
    Machine b(ends, 0, 2.0f);
    Machine c({end(&lower, 0, false, false)}, 0, 2.0f);
    for (Machine* m : {a.get(), &b, &c}) {
      ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
    }
    AwaitRest({a.get(), &b, &c});
    a.reset();  // the upper segment stalls and waits for node a
    c.Iterate(kFloats);
    ASSERT_TRUE(ComesTo(b, After({kFloats}, 2)));
    AwaitRest({&b, &c});
    const size_t up = upper_first ? 0 : 1;
    const std::vector<float> merged = Merged(&b);
    int in_both = 0;
    for (int64_t i = 0; i < kFloats; ++i) {
      const bool masters = Masters(&b, up, i);
      in_both += !masters && !Masters(&b, 1 - up, i);
      ASSERT_EQ(merged[i], masters ? 3.0f : 2.0f) << i;
    }
    EXPECT_GT(in_both, 0);
  }
}

TEST(Cluster, ReadsMergedWeightsOfRanges) {
  constexpr int64_t kHalf = kFloats / 2;
  LoopbackHub low(LoopbackOptions{.nodes = 2}), high(LoopbackOptions{.nodes = 2});
  const auto ends = [&](uint16_t node) {
    return std::vector<End>{{.hub = &low,
                             .node = node,
                             .nodes = 2,
                             .may_begin = node == 0,
                             .chunk_floats = 100,
                             .floats = kHalf},
                            {.hub = &high,
                             .node = node,
                             .nodes = 2,
                             .may_begin = node == 0,
                             .chunk_floats = 70,
                             .begin = kHalf}};
  };
  Machine a(ends(0), 0, 2.0f);
  Machine b(ends(1), 0, 2.0f);
  for (Machine* m : {&a, &b}) ASSERT_TRUE(Eventually([&] { return m->cluster().begun(); }));
  AwaitRest({&a, &b});
  for (Machine* m : {&a, &b}) AddUnreported(m);
  for (Machine* m : {&a, &b}) {
    const std::vector<float> merged = Merged(m);
    int own[2] = {};
    for (int64_t i = 0; i < kFloats; ++i) {
      const size_t segment = i < kHalf ? 0 : 1;
      const bool masters = Masters(m, segment, i);
      own[segment] += masters;
      ASSERT_EQ(merged[i], masters ? 3.0f : 2.0f) << i;
    }
    for (const int each : own) {
      EXPECT_GT(each, 0);
      EXPECT_LT(each, kHalf);
    }
  }
  for (Machine* m : {&a, &b}) m->Iterate(kFloats);
  for (Machine* m : {&a, &b}) EXPECT_TRUE(ComesTo(*m, After({kFloats, kFloats}, 4)));
  AwaitRest({&a, &b});
  for (Machine* m : {&a, &b}) EXPECT_EQ(Merged(m), m->weights());
}

TEST(IterationRange, FindsTheMultiplesThatASchedulePasses) {
  EXPECT_TRUE((IterationRange{99, 101}.HoldsMultiple(100)));
  EXPECT_FALSE((IterationRange{98, 100}.HoldsMultiple(100)));
  EXPECT_FALSE((IterationRange{101, 200}.HoldsMultiple(100)));
  EXPECT_TRUE((IterationRange{100, 101}.HoldsMultiple(100)));
  EXPECT_TRUE((IterationRange{0, 1}.HoldsMultiple(100)));
  EXPECT_FALSE((IterationRange{5, 5}.HoldsMultiple(5)));
  EXPECT_FALSE((IterationRange{5, 9}.HoldsMultiple(0)));
  EXPECT_EQ((IterationRange{95, 301}.LastMultiple(100)), 300);
}

}  // namespace
}  // namespace millrace
