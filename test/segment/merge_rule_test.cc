// Merge rules other than the additive one in whole segments: parameters travel from a topology file
// to the kernels, state is where the master is, and runs end at the rule's fixed point.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/rng.h"
#include "cluster/start.h"
#include "exchange/kernels/rules/register_host_rule.h"
#include "exchange/kernels/stream_executor.h"
#include "exchange/protocol/ownership.h"
#include "test/sim/segment_cluster.h"
#include "test/support/emulated_launcher.h"
#include "test/support/eventually.h"
#include "test/support/support.h"
#include "test/support/test_rules.h"
#include "topology/plan.h"

namespace millrace::test {
namespace {

using sim::SegmentCluster;

const RegisterHostRule heavy_ball(HeavyBallDescriptor(), MakeHeavyBall);
const RegisterHostRule elastic(ElasticTestDescriptor(), MakeElasticTest);
const RegisterOverSpans heavy_ball_spans(HeavyBallDescriptor(), MakeHeavyBall);
const RegisterOverSpans elastic_spans(ElasticTestDescriptor(), MakeElasticTest);
// Its parameters may contradict each other.
const RegisterMergeRule refusing({.name = "refusing", .parameters = {{"low", 0, 0, 1}}},
                                 [](const RuleParameters& parameters) {
                                   if (parameters.at("low") > 0) throw Error("low is above high");
                                   return std::make_unique<OverSpans<HeavyBallRule>>(
                                       HeavyBallRule{});
                                 });
const RegisterMergeRule none({.name = "none"}, [](const RuleParameters&) { return nullptr; });

constexpr int64_t kFloats = 900, kChunk = 100;

// Lines 1 to 4: a cluster of three nodes. `fields` are those of a segment from line 5 on.
std::string TextWith(const std::string& fields) {
  return "name: 'rules'\nnode { name: 'a' address: '127.0.0.1' }\n"
         "node { name: 'b' address: '127.0.0.2' }\nnode { name: 'c' address: '127.0.0.3' }\n"
         "segment { name: 's' transport: 'loopback' chunk_floats: 100\n"
         "  option { key: 'nodes' value: '3' }\n" +
         fields + " }\n";
}
Topology Parse(const std::string& fields) {
  return ParseTopology(TextWith(fields), "f", {"loopback"});
}
std::string ParseError(const std::string& fields) {
  return ErrorOf([&] { Parse(fields); });
}

// The rule that node 0 of this topology plans.
MergeRuleConfig RuleOf(const std::string& fields) {
  return PlanFor(Parse(fields), 0).segments[0].rule;
}

NetSegmentConfig ConfigWith(const MergeRuleConfig& rule) {
  NetSegmentConfig config;
  config.rule = rule;
  config.chunk_floats = kChunk;
  return config;
}

TEST(MergeRuleText, IsReadWithItsParametersAndDefaults) {
  const MergeRuleConfig rule = RuleOf(
      "merge_rule: 'elastic_test' merge_rule_param { key: 'rest' value: 0.0625 } damping: false");
  EXPECT_EQ(rule.name, "elastic_test");
  EXPECT_EQ(rule.parameters, (RuleParameters{{"pull", 0.25}, {"rest", 0.0625}}));
}

TEST(MergeRuleText, IsRefusedByLineWhereItIsWrong) {
  EXPECT_EQ(
      ParseError("merge_rule: 'mean'"),
      "f:7: segment[0].merge_rule: \"mean\" given, expected one of additive, average, cgad, "
      "decayed, delay_compensated, easgd, elastic_test, elastic_test_spans, gap_aware, heavy_ball, "
      "heavy_ball_spans, heloco, mla, none, outer, refusing and 1 more");
  const auto error = [](const std::string& param) {
    return ParseError("merge_rule: 'heavy_ball'\nmerge_rule_param { " + param + " }");
  };
  EXPECT_EQ(error("key: 'kep' value: 1"),
            "f:8: segment[0].merge_rule_param[0].key: \"kep\" given, expected keep with merge rule "
            "heavy_ball");
  EXPECT_EQ(error("key: 'keep'"),
            "f:8: segment[0].merge_rule_param[0].value: missing, expected a number");
  for (const char* bad : {"-0.5", "1", "nan"}) {
    EXPECT_EQ(error(StrCat("key: 'keep' value: ", bad)),
              StrCat("f:8: segment[0].merge_rule_param[0].value: ", bad,
                     " given, expected 0 to 0.875 for keep"));
  }
  EXPECT_EQ(error("key: 'keep' value: 0 }\nmerge_rule_param { key: 'keep' value: 0"),
            "f:9: segment[0].merge_rule_param[1].key: \"keep\" is there twice, expected it once");
}

// Two segments that share the weights of node b.
Topology Two(const std::string& rule, const std::string& fields_of_first = "") {
  return ParseTopology(
      "name: 'n'\nnode { name: 'a' } node { name: 'b' } node { name: 'c' }\n"
      "segment { name: 's' transport: 'loopback' node: 'a' node: 'b' " +
          fields_of_first +
          " }\n"
          "segment { name: 't' transport: 'loopback' node: 'b' node: 'c'\n"
          " merge_rule: '" +
          rule + "' }\n",
      "f", {"loopback"});
}

// What each segment's momentum adds, the other would take for progress.
TEST(MergeRuleText, OfTwoSegmentsThatShareWeightsOnlyOneHasState) {
  EXPECT_EQ(Two("outer").segments[1].rule.name, "outer");
  EXPECT_EQ(Two("staleness", "merge_rule: 'outer'").segments[0].rule.name, "outer");
  EXPECT_EQ(ErrorOf([&] { Two("heavy_ball", "merge_rule: 'outer'"); }),
            "f:3: segment[0].merge_rule: \"outer\" given, but node \"b\" shares these weights with "
            "segment \"t\"; expected a rule without state, because that of segment \"t\" has state "
            "too");
}

// What the upper segment drops at the end of a run, the lower one would take for progress.
TEST(MergeRuleText, ThatLeavesProgressIsRefusedWhereSegmentsShareWeights) {
  const auto two = [](const std::string& rule) { return Two(rule); };
  EXPECT_EQ(two("heavy_ball").segments[1].rule.name, "heavy_ball");
  EXPECT_EQ(
      ErrorOf([&] { two("elastic_test"); }),
      "f:5: segment[1].merge_rule: \"elastic_test\" given, but node \"b\" shares these weights "
      "with segment \"s\"; expected a rule that leaves no progress unsent");
}

TEST(NetSegmentRule, IsRefusedByNameIfThereIsNone) {
  NetSegmentConfig config = ConfigWith({"mean", {}});
  config.name = "lan";
  LoopbackHub hub(LoopbackOptions{});
  std::vector<float> weights(kFloats);
  EXPECT_EQ(ErrorOf([&] { NetSegment(config, hub.Connect(0), weights.data(), kFloats); }),
            "segment lan: unknown merge rule mean: expected one of additive, average, cgad, "
            "decayed, delay_compensated, easgd, elastic_test, elastic_test_spans, gap_aware, "
            "heavy_ball, heavy_ball_spans, heloco, mla, none, outer, refusing, staleness");
}

TEST(NetSegmentRule, MayRefuseItsParameters) {
  const auto error = [](const MergeRuleConfig& rule) {
    NetSegmentConfig config = ConfigWith(rule);
    config.name = "lan";
    LoopbackHub hub(LoopbackOptions{});
    std::vector<float> weights(kFloats);
    return ErrorOf([&] { NetSegment(config, hub.Connect(0), weights.data(), kFloats); });
  };
  EXPECT_EQ(error({"refusing", {{"low", 0.5}}}), "segment lan: low is above high");
  EXPECT_EQ(error({"refusing", {{"low", 1.5}}}),
            "segment lan: merge rule refusing: low is 1.5: expected 0 to 1");
  EXPECT_EQ(error({"refusing", {{"high", 0}}}),
            "segment lan: merge rule refusing: it has no parameter high");
  EXPECT_EQ(error({"none", {}}), "segment lan: merge rule none: its factory has made none");
}

// All nodes read the same file, so each of them refuses it, with a GPU or without.
TEST(MergeRuleText, ThatHasNoCodeForAGpuIsRefusedWhereANodeHasItsWeightsThere) {
  const auto parse = [](const std::string& rule, const std::string& memory) {
    return ParseTopology("name: 'n'\nnode { name: 'a' } node { name: 'b' memory: '" + memory +
                             "' }\nsegment { name: 's' transport: 'loopback'\n merge_rule: '" +
                             rule + "' }\n",
                         "f", {"loopback"});
  };
  EXPECT_EQ(parse("heavy_ball_spans", "host").segments[0].rule.name, "heavy_ball_spans");
  EXPECT_EQ(parse("additive", "cuda:1").segments[0].rule.name, "additive");
  EXPECT_EQ(
      ErrorOf([&] { parse("heavy_ball_spans", "cuda:1"); }),
      "f:4: segment[0].merge_rule: \"heavy_ball_spans\" given, which works on weights in host "
      "memory only, but those of node \"b\" are in cuda:1; expected another rule, or memory "
      "\"host\"");
}

// Where the replicas are, and how the rule's code is written.
enum class Kind { kHost, kSpans, kDevice };

class RuleSegment : public testing::TestWithParam<Kind> {
 protected:
  // The name of the rule `name` of test_rules.h, over spans if these are tested.
  static std::string NameOf(const std::string& name) {
    return GetParam() == Kind::kSpans ? name + "_spans" : name;
  }
  template <typename Rule>
  ReplicaDevice MakeReplicaDevice(Rule (*make_rule)(const RuleParameters&)) {
    if (GetParam() != Kind::kDevice) return HostReplica();
    return {&device_, [this, make_rule](const ReplicaArrays& arrays, const CodecConfig& codec,
                                        const MergeRuleConfig& rule) {
              const MergeRuleDescriptor& descriptor = MergeRuleRegistry::Get().Check(rule);
              const Rule made = make_rule(descriptor.WithDefaults(rule.parameters));
              return std::make_unique<StreamExecutor>(
                  device_,
                  std::make_unique<EmulatedLauncher<Rule>>(
                      EmulatedOptions{.seed = Seed(), .device = &device_}, made),
                  arrays, codec);
            }};
  }

  // A segment of three nodes with `rule`, all together.
  template <typename Rule>
  std::unique_ptr<SegmentCluster> Start(const MergeRuleConfig& rule,
                                        Rule (*make_rule)(const RuleParameters&)) {
    auto segment = std::make_unique<SegmentCluster>(3, kFloats, ConfigWith(rule));
    segment->replica_device = [this, make_rule](int) { return MakeReplicaDevice(make_rule); };
    segment->StartAll();
    segment->Run(1000);  // until all have their share of the chunks
    return segment;
  }

  // A chunk that `node` masters.
  static int64_t ChunkOf(SegmentCluster* segment, int node) {
    const ChunkTable& table = segment->net(node).exchange().table();
    for (uint32_t i = 0; i < table.size(); ++i) {
      if (table.chunks[i].owner == node) return i;
    }
    ADD_FAILURE() << "node " << node << " masters nothing";
    return 0;
  }
  // One step of `node` on one weight, which the others then have.
  static void Step(SegmentCluster* segment, int node, int64_t weight, float step) {
    segment->Add(node, weight, step);
    segment->net(node).state().SetProgress(++made_);
    segment->Run(1500);
  }
  static void ExpectEverywhere(SegmentCluster* segment, int64_t weight, float value) {
    for (int node = 0; node < 3; ++node) {
      EXPECT_EQ(segment->weights(node)[weight], value) << "node " << node;
    }
  }

  FakeDevice device_{{.mode = FakeMode::kLate}};  // outlives all replicas
  static inline uint64_t made_ = 0;
};
std::string KindName(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kHost ? "Host" : info.param == Kind::kSpans ? "Spans" : "Device";
}
INSTANTIATE_TEST_SUITE_P(On, RuleSegment, testing::Values(Kind::kHost, Kind::kSpans, Kind::kDevice),
                         KindName);

TEST_P(RuleSegment, MergesWithTheParameterOfTheFileAndItsState) {
  const auto segment = Start(RuleOf("merge_rule: '" + NameOf("heavy_ball") +
                                    "' merge_rule_param { key: 'keep' value: 0.25 }"),
                             MakeHeavyBall);
  const int64_t weight = ChunkOf(segment.get(), 0) * kChunk + 7;
  float w = 0, v = 0;
  for (const float step : {4.0f, 8.0f, -2.0f, 1.0f}) {
    for (const int worker : {1, 2}) {
      Step(segment.get(), worker, weight, step);
      v = 0.25f * v + step;
      w += v;
      ExpectEverywhere(segment.get(), weight, w);
    }
  }
  // The master's own progress is in its weights at once.
  Step(segment.get(), 0, weight, 16);
  ExpectEverywhere(segment.get(), weight, w + 16);
}

TEST_P(RuleSegment, BeginsTheStateAnewWithEachMaster) {
  const auto segment = Start({NameOf("heavy_ball"), {{"keep", 0.5}}}, MakeHeavyBall);
  const int64_t chunk = ChunkOf(segment.get(), 0), weight = chunk * kChunk + 3;
  Step(segment.get(), 1, weight, 4);
  Step(segment.get(), 2, weight, 4);
  ExpectEverywhere(segment.get(), weight, 4 + 6);
  segment->net(0).state().RequestLeave();
  for (int i = 0; i < 8000 && !segment->net(0).state().left(); ++i) segment->Pass();
  ASSERT_TRUE(segment->net(0).state().left());
  segment->Kill(0);
  segment->Run(3000);
  const int master = segment->net(1).exchange().table().chunks[chunk].owner;
  ASSERT_NE(master, 0);
  const int worker = 3 - master;
  Step(segment.get(), worker, weight, 4);  // the weights stay, the state begins with zero
  EXPECT_EQ(segment->weights(master)[weight], 14);
  Step(segment.get(), worker, weight, 4);
  EXPECT_EQ(segment->weights(master)[weight], 20);
  EXPECT_EQ(segment->weights(worker)[weight], 20);
  // The node comes back as a master of the chunk, without the state of its earlier time.
  segment->Start(0);
  segment->Run(5000);
  ASSERT_TRUE(segment->Together());
  ASSERT_EQ(segment->net(1).exchange().table().chunks[chunk].owner, 0);
  Step(segment.get(), 1, weight, 4);
  ExpectEverywhere(segment.get(), weight, 24);
}

TEST_P(RuleSegment, RestsAtTheFixedPointOfItsRuleAndDropsWhatRemainsAtTheEnd) {
  for (const bool damping : {false, true}) {
    SCOPED_TRACE(damping);
    NetSegmentConfig config =
        ConfigWith({NameOf("elastic_test"), {{"pull", 0.25}, {"rest", 0.125}}});
    config.exchange.damping = damping;
    SegmentCluster segment(3, kFloats, config);
    segment.replica_device = [this](int) { return MakeReplicaDevice(MakeElasticTest); };
    segment.StartAll();
    Rng rng(Seed(), {21});
    for (int i = 0; i < 300; ++i) {
      segment.Iterate(i % 3, rng.Gaussian());
      segment.Pass();
    }
    segment.Run(3000);
    // At rest: replicas are apart by what the rule leaves, and only heartbeats travel.
    const std::vector<float> first = segment.weights(0), second = segment.weights(1);
    EXPECT_NE(first, second);
    for (int64_t i = 0; i < kFloats; ++i) ASSERT_NEAR(first[i], second[i], 2 * 0.125f) << i;
    uint64_t diffs = 0;
    for (int node = 0; node < 3; ++node) {
      EXPECT_TRUE(segment.net(node).exchange().quiescent()) << node;
      diffs += segment.net(node).exchange().stats().diffs_taken;
    }
    segment.Run(500);
    for (int node = 0; node < 3; ++node) {
      diffs -= segment.net(node).exchange().stats().diffs_taken;
    }
    EXPECT_EQ(diffs, 0u);
    // At the end of the run all have the masters' weights.
    for (int node = 0; node < 3; ++node) segment.net(node).state().RequestFlush();
    segment.Run(3000);
    EXPECT_EQ(segment.weights(1), segment.weights(0));
    EXPECT_EQ(segment.weights(2), segment.weights(0));
    for (int node = 0; node < 3; ++node) EXPECT_TRUE(segment.net(node).exchange().quiescent());
  }
}

// The whole way with threads: text, plan, cluster. While nodes join, chunks may change their
// masters between two steps, which begins the state anew.
TEST(MergeRuleCluster, MergesAsItsTopologySays) {
  const Topology topology = Parse(
      "merge_rule: 'heavy_ball' merge_rule_param { key: 'keep' value: 0.75 }\n"
      "option { key: 'hub' value: 'MergeRuleCluster' } pace: 'full' damping: false");
  struct Node {
    std::vector<float> weights = std::vector<float>(kFloats);
    RangeLock locks{weights.data()};
    IterationClock iterations;
    std::unique_ptr<Cluster> cluster;

    // Adds to the weight as a solver does; returns its new value.
    float Add(int64_t weight, float step) {
      RangeLock::Shared lock(&locks);
      lock.Lock(&weights[weight], 1);
      const float value = weights[weight] += step;
      lock.Unlock();
      return value;
    }
  };
  SteadyClock clock;
  ErrorSink errors;
  std::array<Node, 3> nodes;
  for (NodeId id = 0; id < 3; ++id) {
    Node& node = nodes[id];
    node.cluster = StartCluster(topology, PlanFor(topology, id),
                                {.weights = node.weights.data(),
                                 .size = kFloats,
                                 .layout_digest = 1,
                                 .start = 0,
                                 .iterations = &node.iterations,
                                 .clock = &clock,
                                 .sink = &errors,
                                 .replica_device = HostReplica(&node.locks)});
  }
  ASSERT_TRUE(Eventually([&] {
    return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
      return node.cluster->begun() && node.cluster->in_sync() && node.cluster->members() == 3;
    });
  }));
  View view;
  for (uint16_t node = 0; node < 3; ++node) view.members.push_back({node, Role::kSynced});
  std::vector<uint16_t> owners(kFloats / kChunk);
  AssignOwners(view, owners);
  const int64_t chunk = std::find(owners.begin(), owners.end(), 0) - owners.begin();
  Node& worker = nodes[1];
  const int solver = worker.iterations.RegisterSolver();
  const auto step = [&](int64_t weight, float by) {
    const float before = worker.Add(weight, 0);
    worker.Add(weight, by);
    worker.iterations.Claim(1000);
    worker.iterations.Done(solver);
    float value = 0;
    EXPECT_TRUE(Eventually([&] {
      value = nodes[0].Add(weight, 0);
      return value > before && nodes[1].Add(weight, 0) == value && nodes[2].Add(weight, 0) == value;
    }));
    return value;
  };
  float value = 0;
  for (int64_t i = 0; i < kChunk && value != 15 && !HasFailure(); ++i) {
    EXPECT_EQ(step(chunk * kChunk + i, 4), 4);
    value = step(chunk * kChunk + i, 8);
    EXPECT_TRUE(value == 15 || value == 4 + 8) << value;
  }
  EXPECT_EQ(value, 4 + (0.75f * 4 + 8));
  errors.RethrowIfFailed();
}

}  // namespace
}  // namespace millrace::test
