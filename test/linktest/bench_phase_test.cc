#include "linktest/bench_phase.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "test/linktest/measure_support.h"

namespace millrace {
namespace {

using Phase = BenchStatus::Phase;

BenchPhasesConfig ConfigOf(NodeId node) {
  BenchPhasesConfig config;
  config.cluster = "three";
  config.node = node;
  config.names = {"a", "b", "c"};
  config.wait_seconds = 10;
  config.warm_up_seconds = 1;
  config.seconds = 4;
  config.timeout_seconds = 20;
  return config;
}

// Nodes that receive each other's status at once until they are removed.
class Nodes {
 public:
  explicit Nodes(const std::vector<NodeId>& nodes) {
    for (const NodeId node : nodes) Add(node);
  }
  void Add(NodeId node) { phases_[node] = std::make_unique<BenchPhases>(ConfigOf(node), now_); }
  void Remove(NodeId node) { phases_.erase(node); }
  BenchPhases& operator[](NodeId node) { return *phases_.at(node); }

  BenchPhases::Others OthersOf(NodeId node) const {
    BenchPhases::Others others;
    for (const auto& [other, phases] : phases_) {
      if (other == node) continue;
      others[other] = phases->status();
      if (stopped_.count(other) > 0) others[other].set_phase(BenchStatus::STOPPED);
    }
    return others;
  }
  void Stop(NodeId node) { stopped_[node] = true; }
  bool Step(NodeId node, bool ready = true) {
    return phases_.at(node)->Step(now_, OthersOf(node), ready);
  }
  // Steps all nodes until none makes progress.
  void StepAll(bool ready = true) {
    for (bool more = true; more;) {
      more = false;
      for (const auto& [node, phases] : phases_) {
        if (stopped_.count(node) == 0) more = Step(node, ready) || more;
      }
    }
  }
  void Pass(double seconds) { now_ += seconds; }
  // Completes the warm-up and almost all of the measurement; the next step ends LOADED.
  void Measure() {
    Pass(1);
    StepAll();
    Pass(4);
  }
  double now() const { return now_; }
  bool AllAt(Phase phase) const {
    for (const auto& [node, phases] : phases_) {
      if (phases->phase() != phase) return false;
    }
    return true;
  }

 private:
  double now_ = 100;
  std::map<NodeId, std::unique_ptr<BenchPhases>> phases_;
  std::map<NodeId, bool> stopped_;
};

TEST(BenchPhases, GoTogetherFromTheFirstToTheLast) {
  Nodes nodes({0, 1, 2});
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
  EXPECT_EQ(nodes[2].participants(), (std::vector<NodeId>{0, 1, 2}));
  EXPECT_TRUE(nodes[0].is_leader());
  EXPECT_FALSE(nodes[1].is_leader());
  EXPECT_EQ(nodes[1].leader(), 0);
  nodes.Pass(0.9);
  nodes.StepAll();
  EXPECT_FALSE(nodes[1].measures());
  nodes.Pass(0.2);
  nodes.StepAll();
  EXPECT_TRUE(nodes[1].measures());
  nodes.Pass(3.9);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
  nodes.Pass(0.2);
  nodes.StepAll(false);
  EXPECT_TRUE(nodes.AllAt(BenchStatus::QUIET));  // until no more frames move
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::DONE));
}

TEST(BenchPhases, NobodyLoadsBeforeAllHaveReadTheirCountersAtRest) {
  Nodes nodes({0, 1, 2});
  for (NodeId node : {0, 1, 0, 1}) nodes.Step(node);
  EXPECT_EQ(nodes[0].phase(), BenchStatus::READY);
  EXPECT_EQ(nodes[1].phase(), BenchStatus::READY);
  EXPECT_FALSE(nodes.Step(2, false));  // node 2 is not quiescent yet
  nodes.Step(0);
  nodes.Step(1);
  EXPECT_EQ(nodes[0].phase(), BenchStatus::READY);
  nodes.Step(2, true);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
}

TEST(BenchPhases, WhoWasKeptFromRunningMeasuresAsLong) {
  Nodes nodes({0, 1, 2});
  nodes.StepAll();
  nodes.Pass(50);
  nodes.StepAll();
  EXPECT_TRUE(nodes[0].measures());
  nodes.Pass(3.9);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
}

TEST(BenchPhases, NobodyReadsTheLastCountersBeforeAllHaveMeasured) {
  Nodes nodes({0, 1});
  nodes.Pass(11);
  nodes.StepAll();
  nodes.Measure();
  EXPECT_TRUE(nodes.Step(0));
  EXPECT_EQ(nodes[0].phase(), BenchStatus::MEASURED);
  EXPECT_FALSE(nodes.Step(0));
  nodes.StepAll(false);
  EXPECT_TRUE(nodes.AllAt(BenchStatus::QUIET));
}

TEST(BenchPhases, WaitForNodesThatAreMissingThenMeasureWithoutThem) {
  Nodes nodes({1, 2});
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::WAITING));
  EXPECT_EQ(nodes[1].AbsentNodes(nodes.OthersOf(1)), std::vector<std::string>{"a"});
  nodes.Pass(9.9);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::WAITING));
  nodes.Pass(0.2);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
  EXPECT_TRUE(nodes[1].is_leader());  // the lowest node present
  EXPECT_EQ(nodes[2].participants(), (std::vector<NodeId>{1, 2}));
}

TEST(BenchPhases, WhoIsLowestDecidesHowLongIsWaited) {
  Nodes nodes({1});
  nodes.Pass(9);
  nodes.Add(0);
  nodes.Pass(2);
  nodes.StepAll();  // node b has waited long enough, node a has not
  EXPECT_TRUE(nodes.AllAt(BenchStatus::WAITING));
  nodes.Add(2);
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::LOADED));
}

TEST(BenchPhases, ANodeAloneSaysWhoIsMissing) {
  Nodes nodes({1});
  nodes.Pass(11);
  const std::string error = test::ErrorOf([&] { nodes.Step(1); });
  EXPECT_EQ(error, "bench: no other node of cluster three came within 10 s: expected a and c");
}

TEST(BenchPhases, ALateNodeLearnsThatTheOthersMeasureWithoutIt) {
  Nodes nodes({0, 1});
  nodes.Pass(11);
  nodes.StepAll();
  nodes.Add(2);
  const std::string error = test::ErrorOf([&] { nodes.Step(2); });
  EXPECT_CONTAINS(error, "cluster three is being measured by node a");
  EXPECT_CONTAINS(error, "did not wait for node c");
}

TEST(BenchPhases, TheOthersTakeTheTimesOfTheLeader) {
  Nodes nodes({0, 1, 2});
  BenchStatus status = nodes[0].status();
  nodes.Step(0);
  status = nodes[0].status();
  status.set_seconds(77);
  status.set_warm_up_seconds(3);
  ASSERT_TRUE(nodes[1].Step(100, {{0, status}}, true));
  EXPECT_EQ(nodes[1].seconds(), 77);
  EXPECT_EQ(nodes[1].warm_up_seconds(), 3);
}

TEST(BenchPhases, GoOnWithoutANodeThatGoes) {
  Nodes nodes({0, 1, 2});
  nodes.StepAll();
  nodes.Remove(1);
  nodes.Measure();
  nodes.StepAll();
  EXPECT_TRUE(nodes.AllAt(BenchStatus::DONE));
}

TEST(BenchPhases, GoOnWithoutANodeThatIsStopped) {
  Nodes nodes({0, 1, 2});
  nodes.StepAll();
  nodes.Stop(2);
  nodes.Measure();
  nodes.StepAll();
  EXPECT_EQ(nodes[0].phase(), BenchStatus::DONE);
  EXPECT_EQ(nodes[1].phase(), BenchStatus::DONE);
}

TEST(BenchPhases, GiveUpOnANodeThatStandsStill) {
  Nodes nodes({0, 1});
  nodes.Pass(11);
  nodes.StepAll();
  nodes.Measure();
  while (nodes.Step(0, true)) continue;
  EXPECT_EQ(nodes[0].phase(), BenchStatus::MEASURED);  // node b stays at LOADED
  nodes.Pass(19);
  EXPECT_FALSE(nodes.Step(0));
  nodes.Pass(2);
  EXPECT_TRUE(nodes.Step(0));
  EXPECT_EQ(nodes[0].phase(), BenchStatus::QUIET);
}

TEST(BenchPhases, AFollowerEndsWhenTheLeaderLeavesOrStops) {
  for (const bool stops : {false, true}) {
    Nodes nodes({0, 1, 2});
    nodes.StepAll();
    nodes.Measure();
    if (stops) {
      nodes.Stop(0);
    } else {
      nodes.Remove(0);
    }
    EXPECT_TRUE(nodes.Step(1));
    const std::string error = test::ErrorOf([&] { nodes.Step(1); });
    EXPECT_EQ(error, "bench: node a, which collects the reports, has gone");
  }
}

TEST(BenchPhases, ANodeThatIsDoneOrStoppedDoesNotCountAsThere) {
  Nodes nodes({0, 1});
  BenchStatus done = nodes[1].status();
  for (const Phase phase : {BenchStatus::DONE, BenchStatus::STOPPED}) {
    done.set_phase(phase);
    EXPECT_EQ(nodes[0].AbsentNodes({{1, done}}), (std::vector<std::string>{"b", "c"}));
  }
}

TEST(BenchPhases, AcceptsOnlyWhatMakesSenseInTheCluster) {
  Nodes nodes({0, 1, 2});
  nodes.Step(0);
  const BenchStatus good = nodes[0].status();
  EXPECT_TRUE(BenchPhases::Accepts(good, 3));
  EXPECT_FALSE(BenchPhases::Accepts(BenchStatus(), 3));
  EXPECT_FALSE(BenchPhases::Accepts(good, 2));  // it names node 2
  BenchStatus bad = good;
  bad.set_version(2);
  EXPECT_FALSE(BenchPhases::Accepts(bad, 3));
  bad = good;
  bad.set_participants(std::string(2, 1));
  EXPECT_FALSE(BenchPhases::Accepts(bad, 3));
  bad = good;
  bad.set_asked_node(3);
  EXPECT_FALSE(BenchPhases::Accepts(bad, 3));
  for (const float seconds : {-1.0f, 1e30f, std::numeric_limits<float>::quiet_NaN()}) {
    bad = good;
    bad.set_seconds(seconds);
    EXPECT_FALSE(BenchPhases::Accepts(bad, 3)) << seconds;
  }
}

std::vector<std::byte> BytesOf(const BenchStatus& status) {
  const std::string text = status.SerializeAsString();
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST(PeerTable, ANodeThatSaysNothingNewHasGone) {
  PeerTable peers(3, 0, 10);
  BenchStatus status = Nodes({1})[1].status();
  peers.Take(1, BytesOf(status), 50);
  EXPECT_EQ(peers.present(59).count(1), 1u);
  peers.Take(1, BytesOf(status), 59);  // an identical status
  EXPECT_EQ(peers.present(61).count(1), 0u);
  status.set_beat(1);
  peers.Take(1, BytesOf(status), 62);
  EXPECT_EQ(peers.present(63).count(1), 1u);
}

TEST(PeerTable, LeavesOutWhatIsNoStatusAndWhoIsNoPeer) {
  PeerTable peers(3, 0, 10);
  const BenchStatus status = Nodes({1})[1].status();
  peers.Take(0, BytesOf(status), 0);
  peers.Take(3, BytesOf(status), 0);
  peers.Take(1, std::vector<std::byte>(5, std::byte{0xff}), 0);
  peers.Take(2, {}, 0);
  EXPECT_TRUE(peers.present(0).empty());
}

TEST(AndList, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(AndList({}), "");
  EXPECT_EQ(AndList({"a"}), "a");
  EXPECT_EQ(AndList({"a", "b"}), "a and b");
  EXPECT_EQ(AndList({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace millrace
