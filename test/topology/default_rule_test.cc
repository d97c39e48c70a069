// The merge rule of segments whose file names none.
#include <gtest/gtest.h>

#include "exchange/kernels/rules/default_merge_rule.h"
#include "test/support/support.h"
#include "topology/plan.h"
#include "topology/topology.h"

namespace millrace::test {
namespace {

std::string NodesText(int count, const std::string& scaling = "none") {
  std::string text = StrCat("name: 'n' scaling: '", scaling, "'\n");
  for (int i = 0; i < count; ++i) text += StrCat("node { name: 'n", i, "' } ");
  return text;
}

std::string SegmentText(const std::string& name, int first, int count,
                        const std::string& fields = "") {
  std::string text = StrCat("segment { name: '", name, "' transport: 'loopback' ", fields);
  for (int i = first; i < first + count; ++i) text += StrCat(" node: 'n", i, "'");
  return text + " }\n";
}

Topology ParseLoopback(const std::string& text) { return ParseTopology(text, "f", {"loopback"}); }

const RuleParameters& OuterOf(const TopologySegment& segment) {
  EXPECT_EQ(segment.rule.name, "outer");
  return segment.rule.parameters;
}

TEST(DefaultMergeRule, WithoutScalingIsAdditiveForUpToEightMembersAndThenOuterWithMomentum) {
  for (const int members : {2, 8}) {
    const DefaultMergeRule few = DefaultMergeRuleFor(members);
    EXPECT_EQ(few.rule.name, "additive");
    EXPECT_TRUE(few.damping);
  }
  for (const int members : {9, 16, 500}) {
    const DefaultMergeRule many = DefaultMergeRuleFor(members);
    EXPECT_EQ(many.rule.name, "outer");
    EXPECT_EQ(
        many.rule.parameters,
        (RuleParameters{
            {"rate", 0.7 / members}, {"momentum", 0.9}, {"nesterov", 1}, {"delay", members}}));
    EXPECT_FALSE(many.damping);
    MergeRuleRegistry::Get().Check(many.rule);
  }
  EXPECT_EQ(DefaultMergeRuleFor(16).reason,
            "outer with Nesterov momentum, rate 0.04375 and delay 16, undamped: the default for "
            "more than 8 members, of which there are 16");
}

TEST(DefaultMergeRule, IsAverageForThreeToSixteenMembersAtAScaledRate) {
  const auto of = [](int nodes, const std::string& fields = "") {
    return ParseLoopback(NodesText(nodes, "linear") + "\n" + SegmentText("s", 0, nodes, fields));
  };
  for (const int nodes : {3, 5, 16}) {
    const Topology topology = of(nodes);
    EXPECT_EQ(topology.segments[0].rule.name, "average");
    EXPECT_FALSE(topology.segments[0].damping);
    EXPECT_EQ(topology.segments[0].codec.codec, Codec::kInt8);
    EXPECT_EQ(topology.segments[0].position_codec, Codec::kInt8);
    EXPECT_TRUE(PlanFor(topology, 1).scales_rate);
    EXPECT_EQ(
        PlanFor(topology, 1).notices.at(0),
        StrCat("segment \"s\" merges by the rule average, at a learning rate times the number "
               "of members: the default for 3 to 16, of which there are ",
               nodes));
  }
  EXPECT_EQ(of(17).segments[0].rule.name, "outer");
  EXPECT_FALSE(of(17).scales_rate);
  // What two nodes do, and what the file says, stays as it is.
  for (const Topology& topology :
       {of(2), of(3, "merge_rule: 'additive'"), of(3, "damping: true"), of(3, "damping: false")}) {
    EXPECT_EQ(topology.segments[0].rule.name, "additive");
    EXPECT_FALSE(PlanFor(topology, 0).scales_rate);
  }
  const Topology named = of(3, "merge_rule: 'average'");
  EXPECT_EQ(named.segments[0].rule.name, "average");
  EXPECT_FALSE(named.scales_rate);
  EXPECT_EQ(named.segments[0].codec.codec, Codec::kFloat32);
  EXPECT_EQ(of(2).segments[0].position_codec, Codec::kFloat32);
  const Topology exact = of(3, "codec: 'float32' position_codec: 'bfloat16'");
  EXPECT_TRUE(exact.scales_rate);
  EXPECT_EQ(exact.segments[0].codec.codec, Codec::kFloat32);
  EXPECT_EQ(exact.segments[0].position_codec, Codec::kBfloat16);
}

// All weights need the same factor.
TEST(DefaultMergeRule, ScalesTheRateOfSegmentsOfTheSameNodesOnly) {
  const std::string low = "range_end: 0.5", high = "range_begin: 0.5";
  const auto of = [&](const std::string& second) {
    return ParseLoopback(NodesText(4, "linear") + "\n" + SegmentText("low", 0, 4, low) + second);
  };
  const Topology twin = of(SegmentText("high", 0, 4, high));
  EXPECT_TRUE(twin.scales_rate);
  for (const TopologySegment& segment : twin.segments) EXPECT_EQ(segment.rule.name, "average");
  const Topology half = of(SegmentText("high", 0, 4, high + " merge_rule: 'additive'"));
  EXPECT_FALSE(half.scales_rate);
  EXPECT_EQ(half.segments[0].rule.name, "additive");
  const Topology tree = ParseLoopback(NodesText(7, "linear") + "\n" + SegmentText("a", 0, 4) +
                                      SegmentText("b", 3, 4));
  EXPECT_FALSE(tree.scales_rate);
  EXPECT_EQ(tree.segments[0].rule.name, "additive");
}

TEST(DefaultMergeRule, ScalesUnlessTheFileSaysOtherwise) {
  const Topology topology =
      ParseLoopback("name: 'n' node { name: 'n0' } node { name: 'n1' } node { name: 'n2' }" +
                    SegmentText("s", 0, 3));
  EXPECT_EQ(topology.segments[0].rule.name, "average");
  EXPECT_TRUE(topology.scales_rate);
}

TEST(DefaultMergeRule, RefusesAnUnknownScaling) {
  EXPECT_EQ(ErrorOf([] { ParseLoopback(NodesText(2, "cubic") + "\n" + SegmentText("s", 0, 2)); }),
            "f:1: scaling: \"cubic\" given, expected linear or none");
}

// A mean would take a share of what another segment brings, again and again.
TEST(DefaultMergeRule, RefusesMeansWhereSegmentsShareWeights) {
  EXPECT_EQ(
      ErrorOf([] {
        ParseLoopback(NodesText(7) + "\n" + SegmentText("a", 0, 4, "merge_rule: 'average'") +
                      SegmentText("b", 3, 4));
      }),
      "f:3: segment[0].merge_rule: \"average\" given, but node \"n3\" shares these weights with "
      "segment \"b\"; expected a rule that merges the progress of its own node in full");
}

// A caller that has no rate to scale.
TEST(DefaultMergeRule, FollowsTheCaller) {
  const std::string text = NodesText(4, "linear") + "\n" + SegmentText("s", 0, 4);
  EXPECT_EQ(ParseTopology(text, "f", {"loopback"}, false).segments[0].rule.name, "additive");
}

TEST(DefaultMergeRule, StaysWithinTheParametersOfTheRuleForAnyNumber) {
  for (const int members : {1, 1000, 4096}) {
    for (const bool scales : {false, true}) {
      MergeRuleRegistry::Get().Check(DefaultMergeRuleFor(members, true, scales).rule);
    }
  }
}

TEST(DefaultMergeRule, DependsOnTheNodesOfTheSegment) {
  const Topology small =
      ParseLoopback(NodesText(8) + "\nsegment { name: 's' transport: 'loopback' }");
  EXPECT_EQ(small.segments[0].rule.name, "additive");
  EXPECT_TRUE(small.segments[0].damping);
  const Topology large =
      ParseLoopback(NodesText(12) + "\nsegment { name: 's' transport: 'loopback' }");
  EXPECT_EQ(OuterOf(large.segments[0]).at("delay"), 12);
  EXPECT_FALSE(large.segments[0].damping);
  const NodePlan plan = PlanFor(large, 3);
  EXPECT_EQ(plan.segments[0].rule.name, "outer");
  EXPECT_FALSE(plan.segments[0].exchange.damping);
  ASSERT_EQ(plan.notices.size(), 1u);
  EXPECT_CONTAINS(plan.notices[0], "segment \"s\" merges by the rule outer with Nesterov momentum");
}

TEST(DefaultMergeRule, DampsNoRuleThatCorrectsHeldBackProgressAgain) {
  const auto damping = [](const std::string& fields) {
    return ParseLoopback(NodesText(3) + "\n" + SegmentText("s", 0, 3, fields)).segments[0].damping;
  };
  EXPECT_TRUE(damping("merge_rule: 'additive'"));
  EXPECT_FALSE(damping("merge_rule: 'delay_compensated'"));
  EXPECT_FALSE(damping("merge_rule: 'gap_aware'"));
  EXPECT_TRUE(damping("merge_rule: 'delay_compensated' damping: true"));
}

TEST(DefaultMergeRule, LeavesWhatTheFileSays) {
  const auto only = [](const std::string& fields) {
    const Topology topology = ParseLoopback(NodesText(12) + "\n" + SegmentText("s", 0, 12, fields));
    EXPECT_EQ(PlanFor(topology, 0).notices.empty(), fields.find("merge_rule") != std::string::npos);
    return topology.segments[0];
  };
  EXPECT_EQ(only("merge_rule: 'additive'").rule.name, "additive");
  EXPECT_TRUE(only("merge_rule: 'additive'").damping);
  EXPECT_EQ(only("merge_rule: 'staleness'").rule.name, "staleness");
  const TopologySegment damped = only("damping: true");
  EXPECT_EQ(damped.rule.name, "outer");
  EXPECT_TRUE(damped.damping);
  EXPECT_CONTAINS(ErrorOf([&] { only("merge_rule_param { key: 'rate' value: 1 }"); }),
                  "expected none with merge rule additive");
}

// Relays would bring what the rule adds in one segment to another, and it would come back.
TEST(DefaultMergeRule, IsAdditiveWhereSegmentsShareWeights) {
  for (const char* rule : {"", "merge_rule: 'outer'"}) {
    const Topology tree = ParseLoopback(NodesText(20) + "\n" + SegmentText("a", 0, 10) +
                                        SegmentText("b", 9, 11, rule));
    EXPECT_EQ(tree.segments[0].rule.name, "additive");
    EXPECT_TRUE(tree.segments[0].damping);
    EXPECT_EQ(tree.segments[1].rule.name, *rule == 0 ? "additive" : "outer");
    EXPECT_CONTAINS(
        PlanFor(tree, 0).notices.at(0),
        "segment \"a\" merges by the rule additive: the default for 10 members would be "
        "outer, but another segment shares weights with this one");
  }
  // Two ranges of the weights have nothing in common.
  const Topology twin =
      ParseLoopback(NodesText(10) + "\n" + SegmentText("low", 0, 10, "range_end: 0.5") +
                    SegmentText("high", 0, 10, "range_begin: 0.5"));
  EXPECT_EQ(OuterOf(twin.segments[0]).at("delay"), 10);
  EXPECT_EQ(OuterOf(twin.segments[1]).at("delay"), 10);
}

}  // namespace
}  // namespace millrace::test
