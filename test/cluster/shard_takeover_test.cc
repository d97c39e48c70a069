#include "cluster/shard_takeover.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/fake_clock.h"

namespace millrace::test {
namespace {

using Shards = std::vector<uint64_t>;

// Five nodes; node n owns shard 10 + n. There are two racks, {0, 1, 2} and {3, 4}, connected by
// their first nodes. Gossip reaches all connected nodes at once.
class ShardTakeovers : public testing::Test {
 protected:
  ShardTakeovers() {
    Join({0, 1, 2});
    Join({3, 4});
    Join({0, 3});
  }
  void Join(const std::set<NodeId>& segment) {
    for (const NodeId a : segment) {
      for (const NodeId b : segment) {
        if (a != b) links_.insert({a, b});
      }
    }
  }
  bool Receives(NodeId node, NodeId other) const {
    return links_.count({node, other}) && up_.count(node) && up_.count(other) &&
           !cut_.count({std::min(node, other), std::max(node, other)});
  }
  void Start(NodeId node) {
    up_.insert(node);
    gossip_.Forget(node);
    auto& peers = peers_[node] = std::make_unique<sim::FakePeers>(node, &gossip_);
    peers->on_responsive = [this, node](Recency) {
      std::vector<NodeId> responsive;
      for (NodeId other = 0; other < 5; ++other) {
        if (Receives(node, other)) responsive.push_back(other);
      }
      return responsive;
    };
    std::vector<ShardTakeover::Reader> readers;
    for (uint64_t i = 0; i < 5; ++i) readers.push_back({StrCat("n", i), 10 + i});
    absent_.erase(node);
    nodes_[node] = std::make_unique<ShardTakeover>(
        peers.get(), readers,
        [this, node](const Shards& absent) { absent_[node].push_back(absent); }, &clock_);
  }
  void StartAll() {
    for (NodeId node = 0; node < 5; ++node) Start(node);
  }
  // Removes the node; its published messages remain with the others.
  void Kill(NodeId node) {
    up_.erase(node);
    nodes_.erase(node);
  }
  void Run(int ms) {
    for (int i = 0; i < ms; i += 50) {
      clock_.AdvanceNs(50'000'000);
      for (auto& [node, takeover] : nodes_) takeover->Poll();
    }
  }
  // Expects all of `nodes` to report `absent`.
  void ExpectAbsent(const std::set<NodeId>& nodes, const Shards& absent) {
    for (const NodeId node : nodes) {
      EXPECT_EQ(absent_[node].back(), absent) << "node " << node;
    }
  }

  FakeClock clock_;
  std::set<std::pair<NodeId, NodeId>> links_, cut_;
  std::set<NodeId> up_;
  sim::GossipBoard gossip_;
  std::map<NodeId, std::unique_ptr<sim::FakePeers>> peers_;
  std::map<NodeId, std::unique_ptr<ShardTakeover>> nodes_;
  std::map<NodeId, std::vector<Shards>> absent_;
};

TEST_F(ShardTakeovers, LeaveEverythingAsItIsWhileAllAreThere) {
  StartAll();
  Run(30'000);
  for (NodeId node = 0; node < 5; ++node) EXPECT_EQ(absent_[node], std::vector<Shards>{{}});
  for (NodeId node = 0; node < 5; ++node) EXPECT_EQ(gossip_.published(node), 1u);
}

TEST_F(ShardTakeovers, HappenOnAllNodesOfATreeWhenOneIsGoneAndEndWhenItIsBack) {
  StartAll();
  Run(1000);
  Kill(4);
  Run(900);
  ExpectAbsent({0, 1, 2, 3}, {});
  Run(500);
  ExpectAbsent({0, 1, 2, 3}, {14});
  Kill(2);
  Run(1500);
  ExpectAbsent({0, 1, 3}, {12, 14});
  Start(4);
  Run(500);
  ExpectAbsent({0, 1, 3}, {12});
  // Node 4 restarted after node 2 failed, so it waits for node 2 as at any start.
  ExpectAbsent({4}, {});
  Run(10'000);
  ExpectAbsent({0, 1, 3, 4}, {12});
}

TEST_F(ShardTakeovers, WaitAtTheStartForThoseThatHaveNeverBeenThere) {
  Start(0);
  Run(1000);
  Start(1);
  Run(8900);
  ExpectAbsent({0, 1}, {});
  Run(1200);
  ExpectAbsent({0, 1}, {12, 13, 14});
}

TEST_F(ShardTakeovers, GiveAllDataToEachPartOfADividedCluster) {
  StartAll();
  Run(1000);
  cut_.insert({0, 3});
  Run(1500);
  ExpectAbsent({0, 1, 2}, {13, 14});
  ExpectAbsent({3, 4}, {10, 11, 12});
  cut_.clear();
  Run(500);
  ExpectAbsent({0, 1, 2, 3, 4}, {});
}

TEST_F(ShardTakeovers, DoNotHappenBecauseThisNodeStoodStill) {
  StartAll();
  Run(1000);
  // Node 0 was suspended and has received nothing yet when it resumes.
  clock_.AdvanceNs(60'000'000'000);
  cut_ = {{0, 1}, {0, 2}, {0, 3}};
  nodes_[0]->Poll();
  cut_.clear();
  Run(2000);
  EXPECT_EQ(absent_[0], std::vector<Shards>{{}});
}

TEST_F(ShardTakeovers, PassOverNodesThatTheClusterDoesNotHave) {
  StartAll();
  Run(1000);
  gossip_.Publish(3, std::vector<std::byte>(1024, std::byte{0xff}));
  Run(1500);
  ExpectAbsent({0}, {});
}

}  // namespace
}  // namespace millrace::test
