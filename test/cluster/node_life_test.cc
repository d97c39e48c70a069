// Whole lives of nodes on simulated peers and time.
#include "cluster/node_life.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/fake_clock.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using Phase = NodeLife::Phase;
constexpr int64_t kMillisecond = 1'000'000;

// Three nodes a, b and c on one segment. A node's weights are one number, which the test sets; the
// node with the lowest id that has not left leads.
class NodeLives : public testing::Test {
 protected:
  static constexpr size_t kNodes = 3;

  NodeLives() {
    for (NodeId i = 0; i < kNodes; ++i) {
      sim::FakePeers& peers = *(nodes_[i].peers = std::make_unique<sim::FakePeers>(i, &gossip_));
      peers.on_begun = [this, i] { return nodes_[i].begun; };
      peers.on_responsive = [this, i](Recency) {
        std::vector<NodeId> nodes;
        for (NodeId k = 0; k < kNodes; ++k) {
          if (k != i && nodes_[k].alive) nodes.push_back(k);
        }
        return nodes;
      };
      peers.on_is_leader = [this, i] { return !members_.empty() && *members_.begin() == i; };
      peers.on_alone = [this, i] { return members_ == std::set<NodeId>{i}; };
      peers.on_has_dependents = [this, i] { return members_.size() > 1 && *members_.begin() == i; };
      peers.on_members = [this] { return static_cast<uint32_t>(members_.size()); };
      peers.on_leave = [this, i] { members_.erase(i); };
      peers.on_left = [this, i] { return !members_.contains(i); };
      peers.on_idle = [] { return true; };
      nodes_[i].life = std::make_unique<NodeLife>(
          &peers, std::span(&nodes_[i].weight, 1), kLabels, [this, i] { return nodes_[i].stop_ns; },
          &clock_);
    }
  }
  NodeLife& life(NodeId node) { return *nodes_[node].life; }
  void JoinAll() {
    for (NodeId i = 0; i < kNodes; ++i) {
      nodes_[i].begun = true;
      ASSERT_TRUE(life(i).PollJoin());
    }
  }
  // Each living node does what its phase asks for, every 5 ms, until all that live are in `phase`.
  void RunTo(Phase phase, int64_t max_ms = 100'000) {
    for (int64_t ms = 0; ms < max_ms; ms += 5, clock_.AdvanceNs(5 * kMillisecond)) {
      bool there = true;
      for (Node& node : nodes_) {
        if (!node.alive || node.life->phase() >= phase) continue;
        Poll(&node);
        there &= node.life->phase() >= phase;
      }
      if (there) return;
    }
    FAIL() << "the nodes did not get there";
  }

  struct Node {
    float weight = 0;
    bool begun = false, alive = true;
    std::optional<int64_t> stop_ns;
    std::unique_ptr<sim::FakePeers> peers;
    std::unique_ptr<NodeLife> life;
  };
  static void Poll(Node* node) {
    NodeLife& life = *node->life;
    switch (life.phase()) {
      case Phase::kJoining:
        life.PollJoin();
        break;
      case Phase::kTraining:
        life.BeginEnding();
        break;
      case Phase::kEnding:
        life.PollEnd();
        break;
      case Phase::kSaving:
        life.BeginLeave(LeaveReason::kEnd);
        break;
      case Phase::kLeaving:
        life.PollLeave();
        break;
      case Phase::kAnswering:
        life.PollAnswer();
        break;
      case Phase::kGone:
        break;
    }
  }

  const std::vector<PeerLabel> kLabels = {{"a", "lan"}, {"b", "lan"}, {"c", "lan"}};
  FakeClock clock_;
  sim::GossipBoard gossip_{&clock_};
  std::set<NodeId> members_{0, 1, 2};
  Node nodes_[kNodes];
};

TEST_F(NodeLives, JoinTrainEndTogetherAndLeave) {
  EXPECT_FALSE(life(0).PollJoin());
  EXPECT_EQ(life(0).phase(), Phase::kJoining);
  JoinAll();
  nodes_[1].weight = 3;  // progress in flight
  life(0).BeginEnding();
  life(1).PublishTraining(7);
  EXPECT_EQ(life(0).PollEnd(), QuiescenceWait::Result::kWaiting);
  life(1).BeginEnding();
  life(2).BeginEnding();
  for (int i = 0; i < 100; ++i, clock_.AdvanceNs(5 * kMillisecond)) {
    for (NodeId node : {0, 1, 2}) {
      ASSERT_EQ(life(node).PollEnd(), QuiescenceWait::Result::kWaiting) << i;
    }
  }
  for (Node& node : nodes_) node.weight = 3;
  RunTo(Phase::kSaving);
  for (NodeId node : {0, 1, 2}) {
    EXPECT_EQ(life(node).diverged(), "");
    EXPECT_EQ(life(node).end_checksum(), TerminationDetector::Checksum({&nodes_[0].weight, 1}));
  }
  RunTo(Phase::kGone);
  // The leader stays until the others have left.
  EXPECT_TRUE(life(0).last());
  EXPECT_FALSE(life(1).last());
  EXPECT_FALSE(life(2).last());
}

TEST_F(NodeLives, DoNotWaitForADeadNode) {
  JoinAll();
  nodes_[1].alive = false;
  members_.erase(1);
  RunTo(Phase::kSaving);
  EXPECT_EQ(life(0).diverged(), "");
  EXPECT_EQ(life(2).diverged(), "");
  RunTo(Phase::kGone);
}

TEST_F(NodeLives, GoOnToSaveWhereReplicasStayApart) {
  JoinAll();
  nodes_[2].weight = 9;
  RunTo(Phase::kSaving);
  EXPECT_CONTAINS(life(0).diverged(), "others: c on segment lan");
  EXPECT_CONTAINS(life(2).diverged(), "others: a on segment lan, b on segment lan");
  RunTo(Phase::kGone);
}

// A stop may come in any phase.
TEST_F(NodeLives, LeaveFromEachPhaseWhenTheyAreStopped) {
  nodes_[0].begun = nodes_[2].begun = true;
  ASSERT_TRUE(life(0).PollJoin());
  ASSERT_TRUE(life(2).PollJoin());
  life(2).BeginEnding();
  for (Node& node : nodes_) node.stop_ns = clock_.NowNs();
  life(0).PublishStopped();
  life(0).BeginLeave(LeaveReason::kStopped);  // from kTraining
  life(1).BeginLeave(LeaveReason::kEnd);      // from kJoining
  life(2).BeginLeave(LeaveReason::kStopped);  // from kEnding
  for (NodeId node : {0, 1, 2}) EXPECT_EQ(life(node).phase(), Phase::kLeaving);
  RunTo(Phase::kGone);
  EXPECT_LT(clock_.NowNs() - *nodes_[0].stop_ns, 2'000 * kMillisecond);
  int saving = 0;
  for (NodeId node : {0, 1, 2}) saving += life(node).last();
  EXPECT_EQ(saving, 1);
}

TEST_F(NodeLives, KnowOfFailuresDuringTrainingAndAfterALateJoin) {
  nodes_[0].begun = nodes_[1].begun = true;
  ASSERT_TRUE(life(0).PollJoin());
  ASSERT_TRUE(life(1).PollJoin());
  EXPECT_TRUE(life(0).TakeFailures().empty());
  life(1).PublishFailed("iteration 3: the loss is not finite", true);
  nodes_[1].alive = false;
  members_.erase(1);
  EXPECT_EQ(life(0).TakeFailures(),
            std::vector<std::string>{"node b has failed: iteration 3: the loss is not finite"});
  gossip_.Forget(1);  // nobody repeats its message to nodes that come later
  nodes_[2].begun = true;
  ASSERT_TRUE(life(2).PollJoin());
  EXPECT_EQ(
      life(2).TakeFailures(),
      std::vector<std::string>{"node b has failed: the loss is not finite (node a reports it)"});
  RunTo(Phase::kGone);
  for (NodeId node : {0, 2}) {
    EXPECT_EQ(life(node).NotFinite().rfind("node b ended with a loss that is not finite", 0), 0u);
  }
}

TEST_F(NodeLives, EndAtTheIterationOfTheLeadersCondition) {
  JoinAll();
  EXPECT_FALSE(life(1).FindEarlyEnd());
  life(0).PublishEarlyEnd({70, "target: reached"});
  ASSERT_TRUE(life(1).FindEarlyEnd());
  EXPECT_EQ(life(1).FindEarlyEnd()->iteration, 70);
}

}  // namespace
}  // namespace millrace::test
