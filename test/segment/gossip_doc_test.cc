// Checks docs/gossip.md against the program: the fields of the tables, the drop reasons, and every
// byte of the example.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "segment/gossip/gossip_message.h"
#include "test/segment/doc_example.h"
#include "test/support/doc_page.h"

namespace millrace {
namespace {

using test::Section;

std::map<std::string, Section> GossipPage() { return test::ReadDocPage("docs/gossip.md"); }

TEST(GossipDoc, TheExampleIsWhatThePageSays) {
  const Section example = GossipPage()["Example"];
  const auto value_of = [&](const char* field) { return test::IntegerOf(example, field); };
  GossipHead head;
  std::span<const std::byte> part;
  ASSERT_EQ(DecodeGossip(example.bytes, &head, &part), DropReason::kNone);
  EXPECT_EQ(static_cast<uint64_t>(head.kind), value_of("kind"));
  EXPECT_EQ(static_cast<uint64_t>(head.key), value_of("key"));
  EXPECT_EQ(head.key, GossipKey::kReport);
  EXPECT_EQ(head.run, value_of("run"));
  EXPECT_EQ(head.source, value_of("source"));
  EXPECT_EQ(head.destination, value_of("destination"));
  EXPECT_EQ(head.incarnation, value_of("incarnation"));
  EXPECT_EQ(head.origin, value_of("origin"));
  EXPECT_EQ(head.total, value_of("total"));
  EXPECT_EQ(head.offset, value_of("offset"));
  EXPECT_EQ(head.version.incarnation, value_of("origin_incarnation"));
  EXPECT_EQ(head.version.number, value_of("number"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(part.data()), part.size()), "17.5\n");
  std::array<std::byte, kGossipHeadBytes> again;
  EncodeGossip(head, part, again);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), example.bytes.begin()));
}

TEST(GossipDoc, TheExampleLiesAsTheTableSays) {
  auto page = GossipPage();
  test::ExpectLiesAs(page["Frame"].rows, page["Example"], kGossipHeadBytes);
}

TEST(GossipDoc, ThePageNamesAllReasonsInTheirOrder) {
  std::vector<std::string> reasons;
  const auto rows = GossipPage()["Checks"].rows;
  for (const test::Cells& row : rows) reasons.push_back(row.at(0));
  std::vector<std::string> drops;
  for (const DropReason reason : DropReasonsOf(DropComponent::kGossip)) {
    drops.emplace_back(DropReasonName(reason));
  }
  EXPECT_EQ(reasons, drops);
}

}  // namespace
}  // namespace millrace
