// Deprecated field names.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/topology/topology_support.h"
#include "topology/topology.h"

namespace millrace::test {
namespace {

std::string With(const std::string& top, const std::string& fields) {
  return "name: 'x'\n" + top +
         "\nnode { name: 'a' address: '10.0.0.1' }\nnode { name: 'b' address: '10.0.0.2' }\n"
         "segment { name: 's' transport: 'udp'\n" +
         fields + " }\n";
}

TEST(DeprecatedFields, MeanTheSameAsTheFieldsThatReplaceThem) {
  const Topology old = Parse(With("split_test: false",
                                  "rule: 'additive' max_rate: 80 begin: 0 end: 1 suspect_ms: 900 "
                                  "spin: true"));
  const Topology now = Parse(With("distributed_evaluation: false",
                                  "merge_rule: 'additive' max_mbps: 80 range_begin: 0 range_end: 1 "
                                  "peer_timeout_ms: 900 busy_poll: true"));
  EXPECT_FALSE(old.distributed_evaluation);
  EXPECT_EQ(old.segments[0].max_megabits, 80);
  EXPECT_EQ(old.segments[0].peer_timeout_ns, 900'000'000);
  EXPECT_TRUE(old.segments[0].busy_poll);
  EXPECT_EQ(old.digest, now.digest);  // nodes with either file can form one cluster
  EXPECT_EQ(old.warnings.size(), 7u);
  EXPECT_TRUE(now.warnings.empty());
}

TEST(DeprecatedFields, AreNamedWithTheirPlace) {
  EXPECT_EQ(Parse(With("", "max_rate: 80")).warnings,
            (std::vector<std::string>{"f:6: segment[0].max_rate is deprecated, use max_mbps"}));
  EXPECT_EQ(
      Parse(With("split_test: true", "")).warnings,
      (std::vector<std::string>{"f:2: split_test is deprecated, use distributed_evaluation"}));
}

TEST(DeprecatedFields, AreRefusedBesideWhatReplacesThem) {
  EXPECT_EQ(ParseError(With("", "begin: 0 range_begin: 0")),
            "f:6: segment[0].begin: given, and range_begin too, which replaces it; expected "
            "only range_begin");
}

TEST(DeprecatedFields, AreCheckedUnderTheNewName) {
  EXPECT_EQ(ParseError(With("", "suspect_ms: 5")).find("f:"), 0u);
  EXPECT_NE(ParseError(With("", "suspect_ms: 5")).find("peer_timeout_ms: 5"), std::string::npos);
}

}  // namespace
}  // namespace millrace::test
