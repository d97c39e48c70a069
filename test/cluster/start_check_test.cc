#include "cluster/start_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using Lines = std::vector<std::string>;

// An exchange takes 2 s.
const ExpectedSegment kSlow{"lan", 2, 1000, 2, 0.25, "max_mbps", true, "float32"};

TEST(StartCheck, SaysHowLongAnExchangeTakes) {
  const ExpectedSegment fast{"fast", 5,     431080, 0.01384, 1000, "as its interface says",
                             true,   "int8"};
  const ExpectedSegment unknown{"dark", 2, 10, 0, 0, "", true, "float32"};
  EXPECT_EQ(StartCheck({fast, kSlow, unknown}).Lines(),
            (Lines{"Segment fast: an exchange of 431080 weights between 5 nodes takes at least 14 "
                   "ms at 1000 Mbit/s (as its interface says)",
                   "Segment lan: an exchange of 1000 weights between 2 nodes takes at least 2 s at "
                   "0.25 Mbit/s (max_mbps)",
                   "Segment dark: an exchange of 10 weights between 2 nodes takes an unknown time: "
                   "neither max_mbps, nor millrace bench, nor the interface says how fast the link "
                   "is"}));
}

TEST(StartCheck, SaysWhatRoundedPositionsMayCost) {
  ExpectedSegment rounded = kSlow;
  rounded.position_codec = "int8";
  const Lines lines = StartCheck({rounded}).Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "Segment lan: position_codec \"int8\" rounds the weights that other nodes master by up "
            "to 1/254 of the largest in their chunk, also in tests and snapshots before the end of "
            "the run; chunks of mixed magnitude, as with BatchNorm, travel as bfloat16");
  rounded.position_codec = "bfloat16";
  EXPECT_CONTAINS(StartCheck({rounded}).Lines()[1], "by up to 1/256 of each");
  rounded.position_codec = "topk";
  EXPECT_CONTAINS(StartCheck({rounded}).Lines()[1],
                  "leaves out of a position what has changed less");
}

TEST(StartCheck, CountsTheIterationsOfAnExchangeOnceTheyAreKnown) {
  StartCheck check({kSlow});
  EXPECT_EQ(check.Check({2, 39, 100, 10, 1'000'000}), Lines{});
  EXPECT_EQ(check.Check({2, 400, 800, 0.5, 1000}), Lines{});
  // All nodes together: 20 iterations per second.
  EXPECT_EQ(check.Check({2, 40, 200, 10, 1'000'000}),
            Lines{"Segment lan: an exchange takes at least 40 iterations of the cluster; stale "
                  "progress is damped; its 2 nodes are expected to learn 1.3 to 2 times as soon as "
                  "one"});
  EXPECT_EQ(check.Check({2, 80, 160, 8, 1}), Lines{});  // reported only once
}

// The first iterations are faster than the rest: not all nodes have begun, and caches are warm.
TEST(StartCheck, WaitsForATenthOfTheScheduleButNotForLong) {
  StartCheck check({kSlow});
  EXPECT_EQ(check.Check({1, 50, 99, 2, 1000}), Lines{});
  EXPECT_EQ(check.Check({1, 50, 100, 10, 1000}).size(), 1u);
  StartCheck slow({kSlow});
  EXPECT_EQ(slow.Check({1, 50, 99, 9.9, 1000}), Lines{});
  EXPECT_EQ(slow.Check({1, 50, 99, 10, 1000}).size(), 1u);
}

// A fast node among slow ones: the schedule takes as long as the cluster needs for it.
TEST(StartCheck, JudgesByTheProgressOfAllNodesWhateverThisOneDoes) {
  EXPECT_NO_THROW(StartCheck({kSlow}).Check({1, 100, 110, 10, 100}));
  EXPECT_THROW(StartCheck({kSlow}).Check({1, 100, 190, 10, 100}), ScheduleTooShort);
}

TEST(StartCheck, SaysNothingOfDampingWhereExchangesAreFresh) {
  StartCheck check({kSlow});
  EXPECT_EQ(
      check.Check({1, 20, 40, 20, 1'000'000}),
      Lines{"Segment lan: an exchange takes at least 4 iterations of the cluster; its 2 nodes "
            "are expected to learn 1.3 to 2 times as soon as one"});
}

TEST(StartCheck, SaysNothingOfDampingWhereItIsOff) {
  ExpectedSegment undamped = kSlow;
  undamped.damping = false;
  EXPECT_EQ(
      StartCheck({undamped}).Check({2, 100, 200, 10, 1'000'000}),
      Lines{"Segment lan: an exchange takes at least 40 iterations of the cluster; its 2 nodes "
            "are expected to learn 1 to 2 times as soon as one"});
}

TEST(StartCheck, WarnsOfPlainMomentumOnStaleWeights) {
  // 40 and 4 iterations of the cluster per exchange, as above.
  const Lines stale = StartCheck({kSlow}, {.momentum = 0.8, .look_ahead = false})
                          .Check({2, 100, 200, 10, 1'000'000});
  ASSERT_EQ(stale.size(), 2u);
  EXPECT_EQ(stale[1],
            "Segment lan: plain steps with momentum 0.8 oscillate on weights as old as that; "
            "expected momentum_lookahead: true, a smaller momentum or a smaller base_lr");
  EXPECT_EQ(StartCheck({kSlow}, {.momentum = 0.8, .look_ahead = false})
                .Check({1, 20, 40, 20, 1'000'000})
                .size(),
            1u);
}

// Solvers of type SGD at a scaled rate, as solver/rate_scale.h has it: limited by staleness.
const ExpectedSolvers kScaledSolvers{.rate_factor = [](double nodes, double staleness) {
  return std::clamp(14 * nodes / staleness, 1.0, nodes);
}};

// Four nodes that average, 40 iterations of the cluster per second.
Lines LinesOfAverages(ExpectedSegment segment) {
  segment.members = 4;
  segment.rule = "average";
  segment.damping = false;
  segment.scales_rate = true;
  return StartCheck({segment}, kScaledSolvers).Check({1, 100, 400, 10, 1'000'000});
}

TEST(StartCheck, SaysHowMuchSoonerNodesLearnThatAverage) {
  ExpectedSegment segment = kSlow;
  segment.seconds = 0.2;
  EXPECT_EQ(
      LinesOfAverages(segment),
      Lines{"Segment lan: an exchange takes at least 8 iterations of the cluster; its 4 nodes "
            "are expected to learn 2.2 to 4 times as soon as one"});
}

TEST(StartCheck, AdvisesCodecsWhereTheyAllowALargerRate) {
  ExpectedSegment segment = kSlow;
  segment.seconds = 0.35;
  EXPECT_EQ(LinesOfAverages(segment).size(), 1u);  // the full rate already
  segment.seconds = 0.5;
  const Lines slow = LinesOfAverages(segment);
  EXPECT_EQ(slow.size(), 1u) << "what int8 would take is not known";
  EXPECT_CONTAINS(slow[0], "1.7 to 2.8 times as soon as one");
  segment.int8_seconds = 0.2;
  const Lines advised = LinesOfAverages(segment);
  ASSERT_EQ(advised.size(), 2u);
  EXPECT_EQ(advised[1],
            "Segment lan: with codec \"int8\" and position_codec \"int8\" up to 4 times as soon");
  segment.int8_seconds = 0.6;  // the present codecs send less
  EXPECT_EQ(LinesOfAverages(segment).size(), 1u);
}

// The rate grows with five nodes at most; what eight gain beyond depends on the net.
TEST(StartCheck, ExpectsMoreOfMoreNodesThanTheirRate) {
  const ExpectedSolvers limited{.rate_factor = [](double nodes, double staleness) {
    return std::clamp(14 * nodes / staleness, 1.0, 5.0);
  }};
  ExpectedSegment segment = kSlow;
  segment.scales_rate = true;
  segment.members = 8;
  EXPECT_DOUBLE_EQ(SpeedupOf(segment, limited, 8).most, 8);
  EXPECT_NEAR(SpeedupOf(segment, limited, 8).least, 3.27, 0.05);
  const ExpectedSpeedup at_three_times_the_rate = SpeedupOf(segment, limited, 14 * 8 / 3.0);
  EXPECT_NEAR(at_three_times_the_rate.least, 2.14, 0.05);
  EXPECT_DOUBLE_EQ(at_three_times_the_rate.most, 4.5);
  EXPECT_DOUBLE_EQ(SpeedupOf(segment, limited, 1000).most, 1);
}

TEST(StartCheck, AdvisesAnOuterOptimizerWhereExchangesAreRare) {
  ExpectedSegment segment = kSlow;
  segment.seconds = 10;
  const Lines lines = LinesOfAverages(segment);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_CONTAINS(lines[0], "are expected to learn 1 times as soon as one");
  EXPECT_CONTAINS(lines[1], "exchanges are too rare for a larger learning rate");
  EXPECT_CONTAINS(lines[1], "\"topk\" where training could send 400 times as much");
  EXPECT_CONTAINS(lines[1], "the merge rule \"outer\"");
}

TEST(StartCheck, AdvisesAveragesWhereThreeAndMoreNodesAdd) {
  ExpectedSegment segment = kSlow;
  segment.members = 4;
  segment.seconds = 0.2;
  const auto lines = [&] {
    return StartCheck({segment}, kScaledSolvers).Check({1, 100, 400, 10, 1'000'000});
  };
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(
      lines()[1],
      "Segment lan: with scaling: \"linear\" and without a merge rule 2.2 to 4 times as soon");
  segment.alone = false;  // a tree adds
  EXPECT_EQ(lines().size(), 1u);
}

// 20 iterations per second on both nodes: 8 s are 160 iterations.
std::string Refusal(const ExpectedSegment& segment, int64_t whole,
                    const ExpectedSolvers& solvers = {}) {
  return test::ErrorOf([&] { StartCheck({segment}, solvers).Check({1, 100, 200, 10, whole}); });
}

TEST(StartCheck, RefusesARunThatEndsBeforeItsNodesCouldLearnFromEachOther) {
  EXPECT_NO_THROW(StartCheck({kSlow}).Check({1, 100, 200, 10, 161}));
  EXPECT_EQ(Refusal(kSlow, 159),
            "segment lan: an exchange of its 1000 weights takes at least 2 s at 0.25 Mbit/s "
            "(max_mbps), and the whole schedule only 8 s: expected time for 4 exchanges; any of "
            "these helps: a higher max_mbps, codec \"bfloat16\" or \"int8\", "
            "position_codec \"bfloat16\" or \"int8\", max_iter of at least 160, strategy { type: "
            "\"local\" sync_condition { type: \"steps\" param { key: \"every\" "
            "value: 20 } } }, which needs 1 exchange");
}

TEST(StartCheck, NamesTheRemediesThatWouldHelp) {
  ExpectedSegment segment = kSlow;
  segment.source = "as its interface says";
  segment.codec = "bfloat16";
  EXPECT_CONTAINS(
      Refusal(segment, 10),
      "any of these helps: a faster link, codec \"int8\", position_codec \"bfloat16\" or "
      "\"int8\", max_iter");
  segment.codec = segment.position_codec = "int8";
  EXPECT_CONTAINS(Refusal(segment, 10), "any of these helps: a faster link, max_iter");
  EXPECT_EQ(Refusal(segment, 10).find("fewer nodes"), std::string::npos);
  segment.members = 3;
  EXPECT_CONTAINS(Refusal(segment, 10), ", fewer nodes on the segment");
}

// Solvers that train apart by intention need one exchange.
TEST(StartCheck, ExpectsOneExchangeOfTheStrategyLocal) {
  const ExpectedSolvers local{.local = true};
  EXPECT_NO_THROW(StartCheck({kSlow}, local).Check({1, 100, 200, 10, 41}));
  const std::string refusal = Refusal(kSlow, 39, local);
  EXPECT_CONTAINS(refusal, "expected time for 1 exchange; any of these helps:");
  EXPECT_CONTAINS(refusal, "max_iter of at least 40");
  EXPECT_EQ(refusal.find("strategy"), std::string::npos) << refusal;
}

TEST(StartCheck, RefusesNothingWhereTheRateIsNotKnown) {
  StartCheck check({{"dark", 2, 1000, 0, 0, "", true, "float32"}});
  EXPECT_EQ(check.Check({1, 100, 200, 10, 1}), Lines{});
}

}  // namespace
}  // namespace millrace
