// A worker's diff that the old master merged and no other node received: until it arrives again at
// the new master, no node may join with weights that lack it. A relay that joins may have it from
// its other segment (docs/exchange.md, "Takeover of a chunk").
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "exchange/protocol/ownership.h"
#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

constexpr int64_t kTimeout = 60;  // ticks

class UnsettledPosition : public testing::Test {
 protected:
  // Nodes that have just joined. Chunk 0 has a master, an heir and a worker, which are different
  // nodes.
  void Start(uint16_t nodes) {
    cluster_ = std::make_unique<Cluster>(
        ClusterOptions{.nodes = nodes, .size = 10, .peer_timeout_ticks = kTimeout});
    master_ = cluster_->owner(0);
    View rest = cluster_->exchange(0).view();
    rest.members.erase(rest.members.begin() + master_);
    std::vector<uint16_t> owners(1);
    AssignOwners(rest, owners);
    heir_ = owners[0];
    worker_ = 0;
    while (worker_ == master_ || worker_ == heir_) ++worker_;
    cluster_->delivers = [this](uint16_t, uint16_t to, const FrameBytes& frame) {
      const FrameHeader header = frame.decoded().header;
      if (header.type == FrameType::kPosition && header.source == heir_) {
        ++(header.unsettled ? unsettled_ : settled_);
      }
      if (header.type == FrameType::kDiff && header.source == worker_) return passes_diffs_;
      return header.type != FrameType::kPosition || header.source != master_ || replaced_ ||
             receivers_.contains(to);
    };
  }

  Cluster& cluster() { return *cluster_; }
  const Chunk& ChunkAt(uint16_t node) { return cluster().exchange(node).table().chunks[0]; }
  void RunUntil(const std::function<bool()>& done) {
    for (int tick = 0; tick < 20 * kTimeout && !done(); ++tick) cluster().Tick();
    ASSERT_TRUE(done());
  }
  // The worker makes progress of 1 and the master merges it; `receivers_` get the position.
  void MergeAtMaster() {
    cluster().Add(worker_, 0, 1);
    cluster().Run(6);
    ASSERT_EQ(cluster()[master_].weights[0], 1);
    ASSERT_TRUE(ChunkAt(worker_).pending);
  }
  // The master stands still until the heir has replaced it; no diff of the worker arrives there.
  void Replace() {
    passes_diffs_ = false;
    cluster()[master_].stopped = true;
    replaced_ = true;
    RunUntil([&] { return ChunkAt(heir_).state == ChunkState::kMaster; });
  }
  void Return(size_t members) {
    cluster()[master_].stopped = false;
    RunUntil([&] { return cluster().exchange(heir_).view().members.size() == members; });
    cluster().Run(2 * kTimeout);
  }
  void ExpectOnceEverywhere() {
    cluster().Settle();
    for (size_t node = 0; node < cluster().size(); ++node) {
      EXPECT_EQ(cluster()[node].weights[0], 1) << "node " << node;
    }
  }

  std::unique_ptr<Cluster> cluster_;
  uint16_t master_ = 0, heir_ = 0, worker_ = 0;
  std::set<uint16_t> receivers_;  // of the master's positions, before it is replaced
  bool passes_diffs_ = true, replaced_ = false;
  int settled_ = 0, unsettled_ = 0;  // the heir's positions
};

TEST_F(UnsettledPosition, IsNotTakenByANodeThatJoins) {
  Start(3);
  MergeAtMaster();
  Replace();
  Return(cluster().size());
  EXPECT_GT(unsettled_, 0);
  EXPECT_EQ(settled_, 0);
  EXPECT_EQ(ChunkAt(master_).number, 0u);
  EXPECT_FALSE(cluster().exchange(master_).in_sync());
  passes_diffs_ = true;
  ExpectOnceEverywhere();
}

// The worker must see whether its diff is in the weights.
TEST_F(UnsettledPosition, IsTakenByAMember) {
  Start(3);
  MergeAtMaster();
  Replace();
  const uint64_t before = ChunkAt(worker_).number;
  cluster().Add(heir_, 1, 1);
  cluster().Run(10);
  EXPECT_GT(unsettled_, 0);
  EXPECT_GT(ChunkAt(worker_).number, before);
}

TEST_F(UnsettledPosition, BecomesSettledWithTheDiff) {
  Start(3);
  MergeAtMaster();
  Replace();
  cluster().Run(10);
  EXPECT_GT(unsettled_, 0);
  passes_diffs_ = true;
  RunUntil([&] { return cluster()[heir_].weights[0] == 1; });
  cluster().Run(2);  // positions of the last tick before the merge arrive
  unsettled_ = 0;
  Return(cluster().size());
  EXPECT_GT(settled_, 0);
  EXPECT_EQ(unsettled_, 0);
  ExpectOnceEverywhere();
}

TEST_F(UnsettledPosition, BecomesSettledWhenTheWorkerIsGone) {
  Start(3);
  MergeAtMaster();
  Replace();
  cluster()[worker_].stopped = true;
  RunUntil([&] { return cluster().exchange(heir_).view().members.size() == 1; });
  Return(2);
  EXPECT_TRUE(cluster().exchange(master_).in_sync());
  EXPECT_EQ(cluster()[master_].weights[0], 0);  // the crash has lost it
}

// The heir has the position that lacks the diff from the worker itself.
TEST_F(UnsettledPosition, IsMadeFromTheWorkersStateToo) {
  Start(3);
  receivers_ = {worker_};
  cluster().Add(master_, 1, 1);
  RunUntil([&] { return ChunkAt(worker_).number > ChunkAt(heir_).number; });
  cluster().Run(6);
  receivers_.clear();
  MergeAtMaster();
  Replace();
  ASSERT_EQ(cluster()[heir_].weights[1], 1);
  Return(cluster().size());
  EXPECT_GT(unsettled_, 0);
  EXPECT_EQ(settled_, 0);
  EXPECT_EQ(ChunkAt(master_).number, 0u);
  passes_diffs_ = true;
  ExpectOnceEverywhere();
}

// A fourth node has the position with the diff, so the worker's diff is no longer in doubt.
TEST_F(UnsettledPosition, IsNotMadeWhereTheDiffHasArrived) {
  Start(4);
  uint16_t fourth = 0;
  while (fourth == master_ || fourth == heir_ || fourth == worker_) ++fourth;
  receivers_ = {fourth};
  MergeAtMaster();
  ASSERT_EQ(cluster()[fourth].weights[0], 1);
  Replace();
  Return(cluster().size());
  EXPECT_EQ(unsettled_, 0);
  EXPECT_GT(settled_, 0);
  EXPECT_TRUE(cluster().exchange(master_).in_sync());
  passes_diffs_ = true;
  ExpectOnceEverywhere();
}

}  // namespace
}  // namespace millrace::sim
