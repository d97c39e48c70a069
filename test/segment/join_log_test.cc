#include "segment/link_log.h"

#include <gtest/gtest.h>

#include "test/sim/membership_cluster.h"

namespace millrace::test {
namespace {

using Lines = std::vector<std::string>;

// Node 2 receives no proposals until it is `repaired`.
class JoinLogTest : public testing::Test {
 protected:
  JoinLogTest() {
    cluster_.delivers = [this](uint16_t, uint16_t to, FrameType type) {
      return repaired_ || to != 2 || type != FrameType::kPropose;
    };
    cluster_.Start(0);
    cluster_.Start(1);
    cluster_.Run(100);
    cluster_.Start(2);
  }

  // Lines of node 1, which is not the coordinator, in `ticks` of 1 ms.
  Lines In(int ticks) {
    Lines lines;
    for (int i = 0; i < ticks; ++i) {
      cluster_.Tick();
      for (std::string& line : log_.Update(cluster_.of(1), cluster_.tick() * 1'000'000)) {
        lines.push_back(std::move(line));
      }
    }
    return lines;
  }

  sim::MembershipCluster cluster_{3};
  JoinLog log_{"lan", {"a", "b", "c"}, 60'000'000};
  bool repaired_ = false;
};

TEST_F(JoinLogTest, NamesTheNodeThatDoesNotAnswerOnceAMinute) {
  EXPECT_EQ(In(170), Lines{});
  const Lines first = In(100);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0],
            "Segment lan: node c has asked to join for 0 s, but does not answer the invitations of "
            "node a: check that frames pass between them in both directions (firewall, routes)");
  EXPECT_EQ(In(59'000), Lines{});
  EXPECT_EQ(In(1'500).size(), 1u);
}

TEST_F(JoinLogTest, SaysThatTheNodeJoined) {
  ASSERT_EQ(In(300).size(), 1u);
  repaired_ = true;
  EXPECT_EQ(In(300), (Lines{"Segment lan: node c joined"}));
  EXPECT_EQ(In(300), Lines{});
}

TEST_F(JoinLogTest, SaysThatNoNodeHasAllWeights) {
  repaired_ = true;
  cluster_[1].gets_synced = false;
  cluster_.Start(1, 7);
  cluster_[1].gets_synced = false;
  EXPECT_EQ(In(150), Lines{});
  cluster_.Kill(0);
  cluster_.Kill(2);
  const Lines lines = In(280);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "Segment lan: no node that has all weights of the run has responded for 0 s; this node "
            "does not have them and waits for one: start such a node again, or all nodes, to begin "
            "anew");
}

TEST_F(JoinLogTest, IsSilentWhereNodesJoinInTime) {
  repaired_ = true;
  EXPECT_EQ(In(500), Lines{});
}

}  // namespace
}  // namespace millrace::test
