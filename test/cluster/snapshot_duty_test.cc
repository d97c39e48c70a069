#include "cluster/snapshot_duty.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/fake_clock.h"

namespace millrace::test {
namespace {

// Nodes that receive each other's messages at once. At most one of them leads.
class SnapshotDuties : public testing::Test {
 protected:
  SnapshotDuties() {
    for (NodeId node : {0, 1, 2}) Start(node);
  }
  void Start(NodeId node) {
    gossip_.Forget(node);
    auto& peers = peers_[node] = std::make_unique<sim::FakePeers>(node, &gossip_);
    peers->on_is_leader = [this, node] { return leader_ == node; };
    nodes_[node] = std::make_unique<SnapshotDuty>(peers.get(), &clock_);
  }
  // A snapshot is due at `iteration`: the leader opens it, the others record it.
  void FallDue(int64_t iteration) {
    for (auto& [node, duty] : nodes_) {
      leader_ == node ? duty->OnOpened(iteration) : duty->ExpectSnapshot(iteration);
    }
  }
  // Nodes that owe a missed snapshot.
  std::vector<NodeId> Owing() {
    clock_.AdvanceNs(SnapshotDuty::kReadNs);
    std::vector<NodeId> due;
    for (auto& [node, duty] : nodes_) {
      if (duty->IsDue()) due.push_back(node);
    }
    return due;
  }

  FakeClock clock_;
  std::optional<NodeId> leader_ = 0;
  sim::GossipBoard gossip_;
  std::map<NodeId, std::unique_ptr<sim::FakePeers>> peers_;
  std::map<NodeId, std::unique_ptr<SnapshotDuty>> nodes_;
};

using Nodes = std::vector<NodeId>;

TEST_F(SnapshotDuties, AreDoneByTheLeader) {
  FallDue(100);
  EXPECT_EQ(Owing(), Nodes{});  // the leader is still writing it
  nodes_[0]->OnWritten(100);
  leader_ = 1;
  EXPECT_EQ(Owing(), Nodes{});
}

TEST_F(SnapshotDuties, AreMadeUpForOnceByTheNextLeader) {
  nodes_.erase(0);  // the node dies, and is still the leader
  for (int64_t iteration : {100, 200, 300}) FallDue(iteration);
  EXPECT_EQ(Owing(), Nodes{});
  leader_ = 1;
  EXPECT_TRUE(nodes_[1]->IsDue());  // immediately
  EXPECT_EQ(Owing(), Nodes{1});
  EXPECT_EQ(nodes_[1]->due(), 300);
  nodes_[1]->OnOpened(347);
  EXPECT_EQ(Owing(), Nodes{});
  nodes_[1]->OnWritten(347);
  leader_ = 2;
  EXPECT_EQ(Owing(), Nodes{});
}

TEST_F(SnapshotDuties, AreMadeUpForWhereNobodyLed) {
  leader_.reset();
  FallDue(100);
  leader_ = 0;
  EXPECT_EQ(Owing(), Nodes{0});
}

TEST_F(SnapshotDuties, AreMadeUpForWhereTheLeaderDiesBeforeItHasWritten) {
  FallDue(100);
  nodes_[0]->OnWritten(100);
  FallDue(200);
  nodes_.erase(0);
  leader_ = 1;
  EXPECT_EQ(Owing(), Nodes{1});
  nodes_[1]->OnOpened(207);
  nodes_.erase(1);  // this node dies as well
  leader_ = 2;
  EXPECT_EQ(Owing(), Nodes{2});
}

// A restart discards the node's message; the other nodes remember that the snapshot was written.
TEST_F(SnapshotDuties, RememberThatOneWasWritten) {
  FallDue(100);
  nodes_[0]->OnWritten(100);
  EXPECT_EQ(Owing(), Nodes{});
  Start(0);
  leader_ = 1;
  EXPECT_EQ(Owing(), Nodes{});
}

TEST_F(SnapshotDuties, EndWithTheNextThatIsDue) {
  leader_.reset();
  FallDue(100);
  leader_ = 1;
  FallDue(200);
  EXPECT_EQ(Owing(), Nodes{});
  nodes_[1]->OnWritten(200);
  leader_ = 2;
  EXPECT_EQ(Owing(), Nodes{});
}

}  // namespace
}  // namespace millrace::test
