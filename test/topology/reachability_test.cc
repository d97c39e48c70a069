#include "topology/reachability.h"

#include <gtest/gtest.h>

#include "test/topology/topology_support.h"

namespace millrace::test {
namespace {

// "udp" segments of two nodes each ("ab" joins a and b), each with its own port.
std::string Links(const std::vector<std::string>& links) {
  std::string text = kThree;
  int port = 1;
  for (const std::string& link : links) {
    text += StrCat("segment { name: '", link, "' transport: 'udp' port: ", port++);
    for (const char node : link) text += StrCat(" node: '", node, "'");
    text += " }\n";
  }
  return text;
}

TEST(Coverage, TakesTrees) {
  EXPECT_EQ(Parse(Links({"ab", "bc"})).segments.size(), 2u);
  EXPECT_EQ(Parse(Links({"ca", "ab"})).segments.size(), 2u);
  // Each half of the weights has a path of its own.
  const Topology halves = Parse(
      kThree +
      "segment { name: 's' transport: 'udp' node: 'a' node: 'b' }\n"
      "segment { name: 't' transport: 'udp' port: 1 node: 'b' node: 'c' range_end: 0.25 }\n"
      "segment { name: 'u' transport: 'udp' port: 2 node: 'a' node: 'c' range_begin: 0.25 }\n");
  EXPECT_EQ(halves.segments.size(), 3u);
}

TEST(Coverage, RefusesTwoSegmentsBetweenTheSameNodes) {
  EXPECT_EQ(
      ParseError(Links({"ab", "bc", "ba"})),
      "f:7: segment[2]: segment \"ba\" joins nodes \"a\" and \"b\", which are joined already by "
      "segment \"ab\" (weights 0 to 1 of the array); expected one way only, or weights are "
      "mastered twice");
  // The result is the same over a different adapter or transport.
  EXPECT_EQ(
      ParseError(WithUdp("range_end: 0.75") +
                 "segment { name: 't' transport: 'packet' range_begin: 0.5 }"),
      "f:6: segment[1]: segment \"t\" joins nodes \"a\" and \"b\", which are joined already by "
      "segment \"s\" (weights 0.5 to 0.75 of the array); expected one way only, or weights "
      "are mastered twice");
}

TEST(Coverage, RefusesACycleAndNamesItsSegments) {
  EXPECT_EQ(
      ParseError(Links({"ab", "bc", "ca"})),
      "f:7: segment[2]: segment \"ca\" joins nodes \"a\" and \"c\", which are joined already by "
      "segment \"ab\", segment \"bc\" (weights 0 to 1 of the array); expected one way only, "
      "or weights are mastered twice");
}

TEST(Coverage, RefusesNodesWithoutAPath) {
  EXPECT_EQ(ParseError(Links({"ab"})),
            "f:4: node[2]: there is no path between two replicas, \"a\" and \"c\", for weights 0 "
            "to 1 of the array; expected segments that join all nodes");
  EXPECT_EQ(
      ParseError(kThree +
                 "segment { name: 's' transport: 'udp' node: 'a' node: 'b' }\n"
                 "segment { name: 't' transport: 'packet' node: 'b' node: 'c' range_end: 0.5 }\n"),
      "f:4: node[2]: there is no path between two replicas, \"a\" and \"c\", for weights 0.5 "
      "to 1 of the array; expected segments that join all nodes");
}

TEST(Coverage, RefusesWeightsThatNoSegmentCarries) {
  EXPECT_EQ(ParseError(kThree),
            "f: segment: none carries weights 0 to 1 of the array, expected all of 0 to 1");
  EXPECT_EQ(ParseError(WithUdp("range_begin: 0.25")),
            "f:5: segment: none carries weights 0 to 0.25 of the array, expected all of 0 to 1");
  EXPECT_EQ(ParseError(WithUdp("range_end: 0.25") +
                       "segment { name: 't' transport: 'packet' range_begin: 0.5 }"),
            "f:5: segment: none carries weights 0.25 to 0.5 of the array, expected all of 0 to 1");
  EXPECT_EQ(ParseError(WithUdp("range_end: 0.25")),
            "f:5: segment: none carries weights 0.25 to 1 of the array, expected all of 0 to 1");
}

TEST(Coverage, OfTheMostNodesIsChecked) {
  // A long chain has paths of the largest possible depth.
  std::string text = "name: 'n'\n";
  constexpr int kNodes = 70;
  for (int i = 0; i < kNodes; ++i) {
    text += StrCat("node { name: 'n", i, "' address: '10.0.0.", i + 1, "' }\n");
  }
  const auto link = [](int from, int to, int port) {
    return StrCat("segment { name: 's", port, "' transport: 'udp' node: 'n", from, "' node: 'n", to,
                  "' port: ", port, " }\n");
  };
  for (int i = 1; i < kNodes; ++i) text += link(i - 1, i, i);
  EXPECT_EQ(Parse(text).segments.size(), size_t{kNodes - 1});
  EXPECT_CONTAINS(ParseError(text + link(kNodes - 1, 0, kNodes)),
                  "joins nodes \"n0\" and \"n69\", which are joined already by segment \"s1\", ");
}

}  // namespace
}  // namespace millrace::test
