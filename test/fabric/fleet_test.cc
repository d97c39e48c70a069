// Whole clusters on the simulated fabric, beside what arithmetic says.
#include "test/fabric/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace::fabric {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kJoin = 20'000 * kMs, kSettle = 20'000 * kMs;

FleetOptions OptionsOf(const Shape& shape, bool multicast, int64_t chunks = 512) {
  FleetOptions options;
  options.shape = shape;
  options.carrier.wire = RoceWire();
  options.carrier.multicast = multicast;
  options.chunks = chunks;
  return options;
}

// Joined and at work, and queues have filled.
void WarmUp(const FleetOptions& options, Fleet* fleet) {
  fleet->Join(kJoin);
  fleet->Work(true);
  const double most = MostSweeps(fleet->cut(), options.shape, 0, options.carrier.rates);
  fleet->Run(static_cast<int64_t>(10 / most * 1e9));
}

Reading ReadingOf(const FleetOptions& options, Fleet* fleet) {
  WarmUp(options, fleet);
  const double most = MostSweeps(fleet->cut(), options.shape, 0, options.carrier.rates);
  return fleet->Measure(static_cast<int64_t>(30 / most * 1e9));
}

double Answered(const Reading& reading) { return reading.merges / reading.sweeps; }

// The closed form knows of positions and differences only; credits are the rest.
TEST(Fleet, PassesTheBytesThatArithmeticExpects) {
  for (const uint16_t nodes : {2, 4, 16, 64}) {
    for (const bool multicast : {false, true}) {
      const FleetOptions options = OptionsOf(Flat(nodes), multicast);
      Fleet fleet(options);
      const Reading reading = ReadingOf(options, &fleet);
      const SweepCost cost = CostOfSweep(fleet.cut(), nodes, nodes, Answered(reading));
      EXPECT_NEAR(reading.sent_bytes / reading.sweeps / cost.sent, 1, 0.05)
          << nodes << (multicast ? ", multicast" : ", copies");
      EXPECT_NEAR(reading.received_bytes / reading.sweeps / cost.received, 1, 0.05)
          << nodes << (multicast ? ", multicast" : ", copies");
    }
  }
}

// What a node sends of its positions in a sweep: all that it sends but its differences.
TEST(Fleet, SendsPositionsOnceByMulticastAndToEachPeerByCopies) {
  for (const uint16_t nodes : {4, 16}) {
    double per_sweep[2];
    for (const bool multicast : {false, true}) {
      const FleetOptions options = OptionsOf(Flat(nodes), multicast);
      Fleet fleet(options);
      const Reading reading = ReadingOf(options, &fleet);
      const SweepCost all = CostOfSweep(fleet.cut(), nodes, nodes, Answered(reading));
      const SweepCost positions = CostOfSweep(fleet.cut(), nodes, nodes, 0);
      const double diffs = all.sent - positions.sent;
      per_sweep[multicast] = reading.sent_bytes / reading.sweeps - diffs;
    }
    EXPECT_NEAR(per_sweep[0] / per_sweep[1] / (nodes - 1), 1, 0.35) << nodes;
  }
}

// The ports are what limits: nothing gets past them, and little of them is left.
TEST(Fleet, IsNeverBetterThanItsPortsAndNotMuchWorse) {
  for (const uint16_t nodes : {2, 4, 16, 64}) {
    for (const bool multicast : {false, true}) {
      const FleetOptions options = OptionsOf(Flat(nodes), multicast);
      Fleet fleet(options);
      const Reading reading = ReadingOf(options, &fleet);
      const auto most = [&](double answered) {
        return MostSweeps(fleet.cut(), options.shape, answered, options.carrier.rates);
      };
      EXPECT_LE(reading.sweeps, 1.01 * most(0)) << nodes << multicast;
      EXPECT_LE(reading.sweeps, 1.01 * most(Answered(reading))) << nodes << multicast;
      EXPECT_GE(reading.sweeps, 0.8 * most(Answered(reading))) << nodes << multicast;
      EXPECT_LE(reading.most_received_bytes, 1.01 * options.carrier.rates.in_bytes_per_second);
      EXPECT_EQ(reading.resends, 0u);
    }
  }
}

TEST(Fleet, OfATreeIsBoundByTheNodesInTwoSegments) {
  const FleetOptions options = OptionsOf(Tree(24, 6), true, 256);
  ASSERT_EQ(options.shape.segments.size(), 5u);
  Fleet fleet(options);
  const Reading reading = ReadingOf(options, &fleet);
  const double most = MostSweeps(fleet.cut(), options.shape, 0, options.carrier.rates);
  EXPECT_LE(reading.least_sweeps, 1.01 * most);
  EXPECT_GE(reading.least_sweeps, 0.3 * most);
  EXPECT_GT(reading.most_received_bytes, 1.2 * reading.received_bytes);
}

// Real merges: nothing that a solver made is lost or counted twice on its way.
TEST(Fleet, EndsWithEqualReplicasThatHoldAllProgressOnce) {
  for (const Shape& shape : {Flat(2), Flat(9), Tree(9, 3), Tree(20, 3)}) {
    for (const bool multicast : {false, true}) {
      const FleetOptions options = OptionsOf(shape, multicast, 128);
      Fleet fleet(options);
      WarmUp(options, &fleet);
      fleet.Work(false);
      EXPECT_TRUE(fleet.Settle(kSettle));
      EXPECT_TRUE(fleet.Conserved()) << shape.nodes << ", " << shape.segments.size();
    }
  }
}

TEST(Fleet, SpreadsAStepFurtherThroughATree) {
  const FleetOptions flat = OptionsOf(Flat(27), true, 256),
                     tree = OptionsOf(Tree(27, 3), true, 256);
  Fleet one(flat), three(tree);
  WarmUp(flat, &one);
  WarmUp(tree, &three);
  const Spread near = one.MeasureSpread(8, 1, kSettle), far = three.MeasureSpread(8, 1, kSettle);
  EXPECT_GT(near.mean_ns, 0);
  EXPECT_LE(near.mean_ns, near.last_ns);
  EXPECT_GT(far.last_ns, near.last_ns);
}

TEST(Fleet, IsTheSameEachTime) {
  const FleetOptions options = OptionsOf(Tree(12, 4), true, 64);
  Fleet one(options), two(options);
  const Reading a = ReadingOf(options, &one), b = ReadingOf(options, &two);
  EXPECT_EQ(a.positions_taken, b.positions_taken);
  EXPECT_EQ(a.diffs_merged, b.diffs_merged);
  EXPECT_EQ(a.sent_bytes, b.sent_bytes);
  EXPECT_GT(a.diffs_merged, 0u);
}

}  // namespace
}  // namespace millrace::fabric
