#include "base/node_bits.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(NodeBits, GoesThroughTheBytesThatItSays) {
  EXPECT_EQ(BitsOf({}), "");
  EXPECT_EQ(BitsOf({0}), "\x01");
  EXPECT_EQ(BitsOf({9, 0, 7}), "\x81\x02");
  EXPECT_EQ(NodesOf("\x81\x02"), (std::vector<NodeId>{0, 7, 9}));
  EXPECT_EQ(NodesOf(BitsOf({63})), std::vector<NodeId>{63});
}

TEST(NodeBits, TakesBytesWithoutNodesForNone) {
  EXPECT_TRUE(NodesOf("").empty());
  EXPECT_EQ(NodesOf(std::string("\0\0\x10", 3)), std::vector<NodeId>{20});
}

}  // namespace
}  // namespace millrace
