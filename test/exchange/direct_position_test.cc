// Positions sent from the weights themselves: the header is made first, the payload is read when
// the frame leaves. Diffs merged in between must not change the payload.
#include <gtest/gtest.h>

#include <vector>

#include "exchange/protocol/ownership.h"
#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

// Three nodes. `master` masters `chunk`; `worker` does not. `heir` becomes the chunk's master
// when `master` is gone.
struct Parts {
  uint16_t master = 2, worker = 0, heir = 0;
  uint32_t chunk = 0;
};

Parts PartsOf(Cluster& nodes) {
  Parts parts;
  View rest = nodes.exchange(0).view();
  rest.members.erase(rest.members.begin() + parts.master);
  std::vector<uint16_t> owners(nodes.exchange(0).table().size());
  AssignOwners(rest, owners);
  parts.chunk = nodes.ChunkOf(parts.master);
  parts.heir = owners[parts.chunk];
  parts.worker = static_cast<uint16_t>(1 - parts.heir);
  return parts;
}

class DirectPosition : public testing::Test {
 protected:
  DirectPosition() : nodes_({.nodes = 3, .direct = true}), parts_(PartsOf(nodes_)) {}

  Exchange& master() { return nodes_.exchange(parts_.master); }
  float& weight(uint16_t node, int64_t i = 0) {
    return nodes_[node].weights[parts_.chunk * 10 + i];
  }
  // A position waits in the master's transport while a diff of the worker arrives.
  void LetADiffComeBeforeThePositionLeaves() {
    nodes_[parts_.master].stuck = true;
    nodes_.Add(parts_.master, parts_.chunk * 10 + 1, 1);
    nodes_.Tick();
    nodes_.Add(parts_.worker, parts_.chunk * 10, 1);
    nodes_.Run(12);
  }

  Cluster nodes_;
  const Parts parts_;
};

TEST_F(DirectPosition, HoldsNoDiffThatItsHeaderDoesNotName) {
  LetADiffComeBeforeThePositionLeaves();
  EXPECT_EQ(master().stats().diffs_merged, 0u);
  nodes_[parts_.master].stuck = false;
  nodes_.Tick();  // the waiting frames leave
  nodes_[parts_.master].stopped = true;
  nodes_.Tick();
  EXPECT_EQ(weight(parts_.worker), 1);
  nodes_.Settle();
  EXPECT_EQ(weight(parts_.worker), 1);
  EXPECT_EQ(weight(parts_.heir), 1);
}

TEST_F(DirectPosition, LetsTheDiffInAsSoonAsItHasLeft) {
  LetADiffComeBeforeThePositionLeaves();
  EXPECT_FALSE(master().quiescent());
  nodes_[parts_.master].stuck = false;
  nodes_.Tick();
  EXPECT_LE(master().NextEvent(nodes_.now()), nodes_.now());
  nodes_.Tick();
  EXPECT_EQ(master().stats().diffs_merged, 1u);
  nodes_.Settle();
  for (uint16_t node = 0; node < 3; ++node) EXPECT_EQ(weight(node), 1);
}

TEST_F(DirectPosition, TakesADiffThatComesTwiceOnce) {
  LetADiffComeBeforeThePositionLeaves();
  nodes_.Give(parts_.master, nodes_.ForgeDiff(parts_.worker, parts_.master, parts_.chunk, 1,
                                              std::vector<float>(10, 1)));
  nodes_[parts_.master].stuck = false;
  nodes_.Settle();
  for (uint16_t node = 0; node < 3; ++node) EXPECT_EQ(weight(node), 1);
}

// If the view changes while the diff waits, its worker sends it again.
TEST_F(DirectPosition, LosesNothingWhenTheViewChangesMeanwhile) {
  nodes_[parts_.master].stuck = true;
  nodes_.Add(parts_.master, parts_.chunk * 10 + 1, 1);
  nodes_.Tick();
  nodes_.Add(parts_.worker, parts_.chunk * 10, 1);
  nodes_.Run(4);
  ASSERT_EQ(master().stats().diffs_merged, 0u);
  nodes_[parts_.heir].stopped = true;
  const ViewId before = master().view().id;
  for (int i = 0; i < 300 && master().view().id == before; ++i) {
    // Only the position waits; a new view needs the other frames.
    nodes_[parts_.master].stuck = false;
    nodes_.Tick();
    nodes_[parts_.master].stuck = i % 4 != 0;
  }
  nodes_[parts_.master].stuck = false;
  nodes_.Settle();
  EXPECT_EQ(weight(parts_.master), 1);
  EXPECT_EQ(weight(parts_.worker), 1);
}

TEST_F(DirectPosition, RefusesADiffOfAWrongSizeBeforeItIsKept) {
  nodes_[parts_.master].stuck = true;
  nodes_.Add(parts_.master, parts_.chunk * 10 + 1, 1);
  nodes_.Tick();
  nodes_.Give(parts_.master, nodes_.ForgeDiff(parts_.worker, parts_.master, parts_.chunk, 1,
                                              std::vector<float>(5000, 1)));
  EXPECT_EQ(master().stats().drops[DropReason::kPayload], 1u);
  nodes_[parts_.master].stuck = false;
  nodes_.Add(parts_.worker, parts_.chunk * 10, 1);
  nodes_.Settle();
  EXPECT_EQ(weight(parts_.master), 1);
}

TEST_F(DirectPosition, KeepsNoMoreDiffsThanThereAreSlots) {
  Cluster crowd({.nodes = 40, .size = 40, .chunk_floats = 40, .slots = 8, .direct = true});
  const uint16_t master = crowd.owner(0);
  crowd[master].stuck = true;
  crowd.Add(master, master, 1);
  crowd.Tick();
  for (uint16_t node = 0; node < 40; ++node) {
    if (node != master) crowd.Add(node, node, 1);
  }
  crowd.Run(6);
  EXPECT_GT(crowd.exchange(master).stats().drops[DropReason::kBeingRead], 0u);
  EXPECT_EQ(crowd.exchange(master).stats().diffs_merged, 0u);
  crowd[master].stuck = false;
  crowd.Settle();
  for (uint16_t node = 0; node < 40; ++node) {
    for (const float weight : crowd[node].weights) EXPECT_EQ(weight, 1);
  }
}

}  // namespace
}  // namespace millrace::sim
