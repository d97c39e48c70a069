#include "base/node_bits.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(NodeBits, GoesThroughTheBytesThatItSays) {
  EXPECT_EQ(BitsOfNodes({}), "");
  EXPECT_EQ(BitsOfNodes({0}), "\x01");
  EXPECT_EQ(BitsOfNodes({9, 0, 7}), "\x81\x02");
  EXPECT_EQ(NodesOf("\x81\x02"), (std::vector<NodeId>{0, 7, 9}));
  EXPECT_EQ(NodesOf(BitsOfNodes({63})), std::vector<NodeId>{63});
}

TEST(NodeBits, TakesBytesWithoutNodesForNone) {
  EXPECT_TRUE(NodesOf("").empty());
  EXPECT_EQ(NodesOf(std::string("\0\0\x10", 3)), std::vector<NodeId>{20});
}

TEST(NodeBits, FindsTheNodesThatOneReaches) {
  const std::vector<std::vector<NodeId>> neighbors = {{1}, {0, 9}, {1}, {},  {},
                                                      {},  {},     {},  {3}, {8, 1}};
  const auto reached = [&](NodeId first, const std::vector<NodeId>& left_out) {
    return ReachableNodes(first, BitsOfNodes(left_out),
                          [&](NodeId node) { return BitsOfNodes(neighbors.at(node)); });
  };
  EXPECT_EQ(reached(0, {}), (std::vector<NodeId>{0, 1, 3, 8, 9}));
  EXPECT_EQ(reached(2, {9}), (std::vector<NodeId>{0, 1, 2}));
  EXPECT_EQ(reached(3, {}), std::vector<NodeId>{3});
  EXPECT_EQ(reached(1, {1, 8}), (std::vector<NodeId>{0, 1, 9}));
}

}  // namespace
}  // namespace millrace
