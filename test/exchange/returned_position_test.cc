// A position restored by a takeover counts as a merge, like a received position or diff. A tree
// of segments relies on these counts to propagate progress.
#include <gtest/gtest.h>

#include <vector>

#include "exchange/protocol/ownership.h"
#include "test/sim/cluster.h"

namespace millrace::sim {
namespace {

// The node that masters the first chunk when `gone` is no longer a member.
uint16_t HeirOf(Cluster& nodes, uint16_t gone) {
  View rest = nodes.exchange(0).view();
  rest.members.erase(rest.members.begin() + gone);
  std::vector<uint16_t> owners(nodes.exchange(0).table().size());
  AssignOwners(rest, owners);
  return owners[0];
}

TEST(ReturnedPosition, CountsAsAMerge) {
  Cluster nodes({.nodes = 3, .size = 10});
  const uint16_t master = nodes.owner(0);
  const uint16_t heir = HeirOf(nodes, master);
  nodes.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const FrameHeader header = frame.decoded().header;
    return header.type != FrameType::kPosition || header.source != master || to != heir;
  };
  nodes.Add(master, 0, 1);
  nodes.Run(2);
  nodes[master].stopped = true;
  const ExchangeStats& stats = nodes.exchange(heir).stats();
  const uint64_t before = stats.merges();
  ASSERT_EQ(nodes[heir].weights[0], 0);
  nodes.Settle();
  EXPECT_EQ(nodes[heir].weights[0], 1);  // the third node had the position and returned it
  EXPECT_EQ(stats.merges(), before + 1);
}

}  // namespace
}  // namespace millrace::sim
