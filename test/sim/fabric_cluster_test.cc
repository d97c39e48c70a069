// Compares simulated clusters with closed-form bounds.
#include "test/sim/fabric/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"

namespace millrace::sim {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kJoin = 20'000 * kMs, kSettle = 20'000 * kMs;

FabricClusterOptions OptionsOf(const Shape& shape, bool multicast, int64_t chunks = 256) {
  FabricClusterOptions options;
  options.shape = shape;
  options.port.wire = RoceWire();
  options.port.multicast = multicast;
  options.port.rates = {3.125e9, 3.125e9};
  options.port.under_way = static_cast<uint32_t>(chunks / 2);
  options.chunks = chunks;
  return options;
}

// Joins, starts the solvers and runs until the queues have filled.
void WarmUp(const FabricClusterOptions& options, FabricCluster* cluster) {
  cluster->Join(kJoin);
  cluster->Work(true);
  const double most = MaxSweeps(cluster->cut(), options.shape, 0, options.port.rates);
  cluster->Run(static_cast<int64_t>(10 / most * 1e9));
}

Reading ReadingOf(const FabricClusterOptions& options, FabricCluster* cluster) {
  WarmUp(options, cluster);
  const double most = MaxSweeps(cluster->cut(), options.shape, 0, options.port.rates);
  return cluster->Measure(static_cast<int64_t>(20 / most * 1e9));
}

double Answered(const Reading& reading) { return reading.merges / reading.sweeps; }

// Measurement of one segment of `nodes` nodes at work. Runs once per parameter pair.
struct Case {
  FabricClusterOptions options;
  Reading reading;
};
const Case& CaseOf(uint16_t nodes, bool multicast) {
  static std::map<std::pair<uint16_t, bool>, Case> cases;
  const auto [found, is_new] = cases.try_emplace({nodes, multicast});
  if (is_new) {
    found->second.options = OptionsOf(FlatShape(nodes), multicast);
    FabricCluster cluster(found->second.options);
    found->second.reading = ReadingOf(found->second.options, &cluster);
  }
  return found->second;
}
constexpr uint16_t kSizes[] = {2, 4, 8, 16, 32};

SweepCost CostOf(const Case& one, double answered) {
  const uint16_t nodes = one.options.shape.nodes;
  return CostOfSweep(CutOf(one.options), nodes, nodes, answered);
}

// The tolerance covers heartbeats and credits, which the closed form omits.
TEST(FabricCluster, PassesTheBytesThatArithmeticExpects) {
  for (const uint16_t nodes : kSizes) {
    for (const bool multicast : {false, true}) {
      const Case& one = CaseOf(nodes, multicast);
      const SweepCost cost = CostOf(one, Answered(one.reading));
      const double sent = one.reading.sent_bytes / one.reading.sweeps;
      const double received = one.reading.received_bytes / one.reading.sweeps;
      const std::string which = StrCat(nodes, multicast ? ", multicast" : ", copies");
      EXPECT_GE(sent, 0.95 * cost.sent) << which;
      EXPECT_LE(sent, 1.05 * cost.max_sent) << which;
      EXPECT_GE(received, 0.95 * cost.received) << which;
      EXPECT_LE(received, 1.05 * cost.max_received) << which;
    }
  }
}

// Bytes that a position costs its master: one frame, or one frame per peer.
TEST(FabricCluster, SendsPositionsOnceByMulticastAndToEachPeerByCopies) {
  for (const uint16_t nodes : kSizes) {
    double bytes[2];  // per position
    for (const bool multicast : {false, true}) {
      const Reading& reading = CaseOf(nodes, multicast).reading;
      ASSERT_GT(reading.positions_sent, 0u);
      bytes[multicast] =
          static_cast<double>(reading.position_bytes) / static_cast<double>(reading.positions_sent);
    }
    // Tolerance: some positions are made before the interval and sent in it, or sent after it.
    EXPECT_NEAR(bytes[0] / bytes[1] / (nodes - 1), 1, 0.03) << nodes;
  }
}

// The ports are the bottleneck: traffic does not exceed their rate and uses most of it.
TEST(FabricCluster, IsNeverBetterThanItsPortsAndNotMuchWorse) {
  for (const uint16_t nodes : kSizes) {
    for (const bool multicast : {false, true}) {
      const Case& one = CaseOf(nodes, multicast);
      const auto most = [&](double answered) {
        return MaxSweeps(CutOf(one.options), one.options.shape, answered, one.options.port.rates);
      };
      const double answered = Answered(one.reading);
      EXPECT_LE(one.reading.sweeps, most(0)) << nodes << multicast;
      EXPECT_LE(one.reading.sweeps, 1.03 * most(answered)) << nodes << multicast;
      EXPECT_GE(one.reading.sweeps, 0.7 * most(answered)) << nodes << multicast;
      const PortRates& rates = one.options.port.rates;
      EXPECT_LE(one.reading.max_sent_bytes, 1.03 * rates.out_bytes_per_second);
      EXPECT_LE(one.reading.max_received_bytes, 1.03 * rates.in_bytes_per_second);
      EXPECT_EQ(one.reading.resends, 0u);
    }
  }
}

TEST(FabricCluster, OfATreeIsBoundByTheNodesInTwoSegments) {
  const FabricClusterOptions options = OptionsOf(TreeShape(24, 6), true, 256);
  ASSERT_EQ(options.shape.segments.size(), 5u);
  FabricCluster cluster(options);
  const Reading reading = ReadingOf(options, &cluster);
  const double most = MaxSweeps(cluster.cut(), options.shape, 0, options.port.rates);
  EXPECT_LE(reading.min_sweeps, 1.01 * most);
  EXPECT_GE(reading.min_sweeps, 0.3 * most);
  EXPECT_GT(reading.max_received_bytes, 1.2 * reading.received_bytes);
}

// Real merges: no token is lost or counted twice.
TEST(FabricCluster, EndsWithEqualReplicasThatHoldAllProgressOnce) {
  for (const Shape& shape : {FlatShape(2), FlatShape(9), TreeShape(9, 3), TreeShape(20, 3)}) {
    for (const bool multicast : {false, true}) {
      const FabricClusterOptions options = OptionsOf(shape, multicast, 128);
      FabricCluster cluster(options);
      WarmUp(options, &cluster);
      cluster.Work(false);
      EXPECT_TRUE(cluster.Settle(kSettle));
      EXPECT_TRUE(cluster.Conserved()) << shape.nodes << ", " << shape.segments.size();
    }
  }
}

TEST(FabricCluster, SpreadsAStepFurtherThroughATree) {
  const FabricClusterOptions flat = OptionsOf(FlatShape(27), true, 256),
                             tree = OptionsOf(TreeShape(27, 3), true, 256);
  FabricCluster one(flat), three(tree);
  WarmUp(flat, &one);
  WarmUp(tree, &three);
  const Spread near = one.MeasureSpread(8, 1, kSettle), far = three.MeasureSpread(8, 1, kSettle);
  EXPECT_GT(near.mean_ns, 0);
  EXPECT_LE(near.mean_ns, near.last_ns);
  EXPECT_GT(far.last_ns, near.last_ns);
}

// With few chunks per master, frames that wait for a window soon become stale. If more positions
// of one chunk waited, few of them would acknowledge their workers' pending diffs.
TEST(FabricCluster, GetsDiffsMergedWhereEachNodeMastersFewChunks) {
  for (const bool multicast : {false, true}) {
    FabricClusterOptions options = OptionsOf(FlatShape(32), multicast, 128);
    options.port.under_way = 256;
    FabricCluster cluster(options);
    WarmUp(options, &cluster);
    cluster.Run(50 * kMs);  // the slowly filling queues have filled, too
    const Reading reading = cluster.Measure(50 * kMs);
    EXPECT_GE(Answered(reading), 0.25) << (multicast ? "multicast" : "copies");
    EXPECT_LE(
        reading.sweeps,
        MaxSweeps(cluster.cut(), options.shape, Answered(reading), options.port.rates) * 1.03);
  }
}

TEST(FabricCluster, IsTheSameEachTime) {
  const FabricClusterOptions options = OptionsOf(TreeShape(12, 4), true, 64);
  FabricCluster one(options), two(options);
  const Reading a = ReadingOf(options, &one), b = ReadingOf(options, &two);
  EXPECT_EQ(a.positions_taken, b.positions_taken);
  EXPECT_EQ(a.diffs_merged, b.diffs_merged);
  EXPECT_EQ(a.sent_bytes, b.sent_bytes);
  EXPECT_GT(a.diffs_merged, 0u);
}

}  // namespace
}  // namespace millrace::sim
