// Trees of segments under faults: gateway nodes pass progress from one segment to the other.
#include "test/sim/tree_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "test/support/support.h"

namespace millrace::sim {
namespace {

constexpr int kChunks = 4;
// Upper segment 0, 1, 2; lower segment 2, 3, 4.
const Shape kTwoLevels{5, {{0, 1, 2}, {2, 3, 4}}};
// A chain with two gateway nodes.
const Shape kChain{4, {{0, 1}, {1, 2}, {2, 3}}};
const MergeRuleConfig kMomentum{"outer", {{"rate", 1}, {"momentum", 0.9}, {"nesterov", 1}}};

class TreeTest : public testing::Test {
 protected:
  // Starts the nodes in `order`, `apart` ticks after each other.
  void Make(const Shape& shape, uint64_t seed, double loss = 0, int64_t apart = 0,
            const std::vector<uint16_t>& order = {}) {
    nodes_ = shape.nodes;
    relays_.clear();
    for (size_t i = 1; i < shape.segments.size(); ++i) relays_.push_back(shape.segments[i][0]);
    TreeOptions options;
    options.shape = shape;
    options.seed = seed;
    options.chunks = kChunks;
    options.faults.loss = loss;
    options.faults.delay_max = 3;
    tree_ = std::make_unique<TreeCluster>(options);
    for (uint16_t node = 0; node < nodes_; ++node) {
      tree_->Start(order.empty() ? node : order[node]);
      Run(apart);
    }
    Run(400);
  }
  // Starts a tree of two segments with these merge rules, and lets it train for a while.
  void MakeWithRules(uint64_t seed, const std::vector<MergeRuleConfig>& rules) {
    nodes_ = kTwoLevels.nodes;
    TreeOptions options;
    options.shape = kTwoLevels;
    options.seed = seed;
    options.chunks = kChunks;
    options.rules = rules;
    tree_ = std::make_unique<TreeCluster>(options);
    for (uint16_t node = 0; node < nodes_; ++node) tree_->Start(node);
    Run(400);
    tree_->Train(false);
  }
  // The same with these encodings of positions.
  void MakeWithCodecs(uint64_t seed, const std::vector<Codec>& codecs) {
    nodes_ = kTwoLevels.nodes;
    TreeOptions options;
    options.shape = kTwoLevels;
    options.seed = seed;
    options.chunks = kChunks;
    options.position_codecs = codecs;
    tree_ = std::make_unique<TreeCluster>(options);
    for (uint16_t node = 0; node < nodes_; ++node) tree_->Start(node);
    Run(400);
    tree_->Train(false);
  }
  void Run(int64_t ticks) { ExpectNone(tree_->Run(ticks)); }
  void ExpectNone(const std::optional<Failure>& failure) {
    if (failure) ADD_FAILURE() << failure->property << ": " << failure->detail;
  }
  void Rest() {
    tree_->Train(false);
    ExpectNone(tree_->Settle());
    ExpectNone(tree_->CheckReplicas());
  }
  // All replicas become equal and hold all progress of nodes that lost no incarnation. Not
  // checked if a gateway node lost one, which happens occasionally under heavy loss.
  void ExpectWhole() {
    tree_->Heal();
    Rest();
    for (uint16_t relay : relays_) {
      if (tree_->incarnations_lost(relay) > 0) return;
    }
    ++whole_;
    for (uint16_t of = 0; of < nodes_; ++of) {
      if (tree_->incarnations_lost(of) > 0) continue;
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        EXPECT_EQ(tree_->lane(0, chunk, of), tree_->made(of, chunk))
            << "of node " << of << tree_->Describe();
      }
    }
  }

  std::unique_ptr<TreeCluster> tree_;
  uint16_t nodes_ = 0;
  std::vector<uint16_t> relays_;
  int whole_ = 0;  // runs in which every token was checked
};

TEST_F(TreeTest, CarriesEveryToken) {
  for (uint64_t i = 0; i < 10; ++i) {
    for (const Shape& shape : {kTwoLevels, kChain}) {
      Make(shape, test::Seed() + i, 0.1);
      ExpectWhole();
    }
  }
}

// What the masters of one segment add to a diff is progress to the other segment.
TEST_F(TreeTest, ComesToRestWhereOneOfTwoSegmentsHasMomentum) {
  for (uint64_t i = 0; i < 5; ++i) {
    for (const bool below : {false, true}) {
      std::vector<MergeRuleConfig> rules(2);
      rules[below] = kMomentum;
      MakeWithRules(test::Seed() + i, rules);
      ExpectNone(tree_->Settle());
      ExpectNone(tree_->CheckReplicas());
    }
  }
}

// Why topology files with such segments are refused.
TEST_F(TreeTest, GrowsWithoutBoundWhereBothSegmentsHaveMomentum) {
  for (uint64_t i = 0; i < 5; ++i) {
    MakeWithRules(test::Seed() + i, {kMomentum, kMomentum});
    double most = 0;
    for (int tick = 0; tick < 600; ++tick) {
      Run(1);
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        for (uint16_t of = 0; of < nodes_; ++of) {
          most = std::max(most, std::abs(double{tree_->lane(0, chunk, of)}));
        }
      }
    }
    EXPECT_GT(most, 1e4);
  }
}

// Nodes of the lower segment that start first do not bootstrap; weights from above would
// overwrite theirs.
TEST_F(TreeTest, CarriesEveryTokenWhateverTheOrderOfStarts) {
  for (uint64_t i = 0; i < 5; ++i) {
    Make(kTwoLevels, test::Seed() + i, 0.05, 150, {4, 3, 2, 1, 0});
    ExpectWhole();
    Make(kTwoLevels, test::Seed() + i, 0.05, 150, {2, 3, 0, 4, 1});
    ExpectWhole();
    Make(kChain, test::Seed() + i, 0.05, 150, {3, 2, 1, 0});
    ExpectWhole();
    if (HasFailure()) return;
  }
}

TEST_F(TreeTest, LosesNothingOfOthersWhenALeafCrashesAndReturns) {
  for (uint64_t i = 0; i < 10; ++i) {
    for (const uint16_t node : {1, 3}) {
      Make(kTwoLevels, test::Seed() + i, 0.05);
      tree_->Crash(node);
      Run(200);
      tree_->Start(node);
      Run(300);
      ExpectWhole();
      if (HasFailure()) return;
    }
  }
}

// What the segment rounds is progress to the other one, which passes it on as it is.
TEST_F(TreeTest, RestsWhereOneSegmentRoundsPositions) {
  for (const Codec codec : {Codec::kBfloat16, Codec::kInt8, Codec::kInt4}) {
    for (const bool lower : {false, true}) {
      MakeWithCodecs(test::Seed(),
                     {lower ? Codec::kFloat32 : codec, lower ? codec : Codec::kFloat32});
      ExpectNone(tree_->Settle());
      tree_->Flush();
      ExpectNone(tree_->Settle());
      ExpectNone(tree_->CheckReplicas());
      if (HasFailure()) return;
    }
  }
}

// The view of one segment changes while the other continues. Positions that a takeover restores
// also propagate.
TEST_F(TreeTest, LosesNothingOfOthersWhenTheFirstNodeCrashes) {
  for (uint64_t i = 0; i < 20; ++i) {
    Make(kTwoLevels, test::Seed() + i, 0.2);
    tree_->Crash(0);
    Run(300);
    tree_->Start(0);
    Run(300);
    ExpectWhole();
    if (HasFailure()) return;
  }
  EXPECT_GE(whole_, 15);
}

TEST_F(TreeTest, LosesNothingOfOthersWhenARelayStandsStill) {
  for (uint64_t i = 0; i < 10; ++i) {
    Make(kTwoLevels, test::Seed() + i);
    tree_->FreezeUntil(2, tree_->tick() + 40);
    Run(300);
    ExpectWhole();
    if (HasFailure()) return;
  }
}

// A crash of a gateway node partitions the tree. Progress that was on all nodes before stays.
// Progress of one part alone may be lost, but is never counted twice.
TEST_F(TreeTest, KeepsWhatWasEverywhereWhenARelayCrashesAndReturns) {
  for (uint64_t i = 0; i < 20; ++i) {
    Make(kTwoLevels, test::Seed() + i);
    Rest();
    std::vector<float> before;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (uint16_t of = 0; of < 5; ++of) before.push_back(tree_->lane(0, chunk, of));
    }
    tree_->Train(true);
    tree_->Crash(2);
    Run(200);
    tree_->Start(2);
    Run(400);
    Rest();
    size_t at = 0;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (uint16_t of = 0; of < 5; ++of) {
        EXPECT_GE(tree_->lane(0, chunk, of), before[at++]) << tree_->Describe();
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace millrace::sim
