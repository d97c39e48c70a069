#include "cluster/start.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace {
namespace {

Topology Parse(const std::string& segments) {
  std::string text = "name: 't'\n";
  for (const char* node : {"a", "b", "c", "d"}) {
    text += std::string("node { name: '") + node + "' address: '10.0.0." +
            static_cast<char>(node[0] - 'a' + '1') + "' }\n";
  }
  return ParseTopology(text + segments, "t.prototxt", {"udp"});
}

bool MayBeginAt(const Topology& topology, size_t segment, NodeId node) {
  return CanBootstrap(GatewayOf(topology, segment), node);
}

TEST(CanBootstrap, IsTrueForAllNodesOfASegmentWithTheFirstOne) {
  const Topology all = Parse("segment { name: 's' transport: 'udp' }");
  for (NodeId node = 0; node < 4; ++node) EXPECT_TRUE(MayBeginAt(all, 0, node));
}

// Weights travel down the tree: c receives them through b, and d through c.
TEST(CanBootstrap, FurtherDownIsTrueForTheNodeThroughWhichTheWeightsCome) {
  const Topology chain = Parse(
      "segment { name: 'cd' transport: 'udp' node: 'd' node: 'c' port: 3 }\n"
      "segment { name: 'bc' transport: 'udp' node: 'c' node: 'b' port: 2 }\n"
      "segment { name: 'ab' transport: 'udp' node: 'a' node: 'b' port: 1 }\n");
  EXPECT_EQ(GatewayOf(chain, 0), 2);
  EXPECT_EQ(GatewayOf(chain, 1), 1);
  EXPECT_EQ(GatewayOf(chain, 2), 0);
  EXPECT_TRUE(MayBeginAt(chain, 2, 0) && MayBeginAt(chain, 2, 1));
  EXPECT_TRUE(MayBeginAt(chain, 1, 1));
  EXPECT_FALSE(MayBeginAt(chain, 1, 2));
  EXPECT_TRUE(MayBeginAt(chain, 0, 2));
  EXPECT_FALSE(MayBeginAt(chain, 0, 3));
}

TEST(CanBootstrap, LooksAtSegmentsOfTheSamePartOfTheWeightsOnly) {
  const Topology halves = Parse(
      "segment { name: 'ab' transport: 'udp' node: 'a' node: 'b' port: 1 range_end: 0.5 }\n"
      "segment { name: 'bcd' transport: 'udp' node: 'b' node: 'c' node: 'd' port: 2 range_end: 0.5 "
      "}\n"
      "segment { name: 'all' transport: 'udp' port: 3 range_begin: 0.5 }\n");
  EXPECT_EQ(GatewayOf(halves, 1), 1);
  EXPECT_FALSE(MayBeginAt(halves, 1, 2));
  EXPECT_TRUE(MayBeginAt(halves, 2, 3));
}

}  // namespace
}  // namespace millrace
