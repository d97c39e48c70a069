#include "segment/link_log.h"

#include <gtest/gtest.h>

#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr int64_t kTimeout = 1'000'000;  // peer timeout, ns
using Lines = std::vector<std::string>;

View ViewOf(std::vector<uint16_t> nodes) {
  View view;
  view.id = {1, 0, 1};
  for (const uint16_t node : nodes) view.members.push_back({node, Role::kSynced, 1, 0});
  return view;
}

// The log of node 0, one of three nodes.
class LinkLogTest : public testing::Test {
 protected:
  LinkLogTest() { links_.OnView(view_, {}, 0); }

  Lines At(int64_t timeouts) {
    const uint64_t alive[] = {7};
    for (; now_ < timeouts * kTimeout; now_ += kTimeout / 16) {
      links_.OnFrame(2, true, now_);
      if (small_frames_) links_.OnFrame(1, false, now_);
      links_.Update(view_, alive, now_);
    }
    return log_.Update(links_, now_);
  }

  const View view_ = ViewOf({0, 1, 2});
  LinkMonitor links_{0, 3, kTimeout};
  LinkLog log_{"lan", {"a", "b", "c"}, 0, 1464};
  int64_t now_ = 0;
  bool small_frames_ = false;
};

TEST_F(LinkLogTest, NamesBothEndsOnce) {
  EXPECT_EQ(At(1), Lines{});
  EXPECT_EQ(At(3), (Lines{"Segment lan: node a receives no frames from node b",
                          "Segment lan: node b is left out until it and all members receive "
                          "each other's frames"}));
  EXPECT_EQ(At(5), Lines{});
}

TEST_F(LinkLogTest, SaysWhereOnlySmallFramesCome) {
  small_frames_ = true;
  EXPECT_EQ(At(2), Lines{});
  const Lines lines = At(4);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "Segment lan: node a gets only small frames of node b, none of 1464 bytes: check the "
            "MTU of the path between them");
}

TEST_F(LinkLogTest, TellsWhatOthersReport) {
  const uint64_t report = 1 << 2;
  links_.OnReport(1, std::as_bytes(std::span(&report, 1)), 0, 0);
  for (int i = 0; i < 20; ++i) links_.OnFrame(1, true, i * kTimeout);
  const Lines lines = At(1);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "Segment lan: node b receives no frames from node c");
  EXPECT_EQ(lines[1],
            "Segment lan: node c is left out until it and all members receive each other's frames");
}

// Node 3 has left the view and sends heartbeats, in which it reports node 0.
TEST_F(LinkLogTest, NamesANodeThatIsHeardAndReceivesNothing) {
  LinkMonitor links(0, 4, kTimeout);
  LinkLog log("lan", {"a", "b", "c", "d"}, 0, 1464);
  links.OnView(view_, {}, 0);
  const uint64_t reports_0 = 1, nobody = 0;
  const auto at = [&](int64_t ns, const uint64_t& report) {
    links.OnReport(3, std::as_bytes(std::span(&report, 1)), 0, ns);
    links.OnFrame(3, false, ns);
    return log.Update(links, ns);
  };
  EXPECT_EQ(at(0, reports_0), Lines{});
  EXPECT_EQ(at(LinkLog::kDeafNs / 2, nobody), Lines{}) << "it only stood still";
  EXPECT_EQ(at(LinkLog::kDeafNs, reports_0), Lines{});
  EXPECT_EQ(at(LinkLog::kDeafNs * 3 / 2, reports_0), Lines{});
  const int64_t later = 2 * LinkLog::kDeafNs;
  EXPECT_EQ(at(later, reports_0), Lines{"Segment lan: node d receives no frames from node a"});
  EXPECT_EQ(at(later + LinkLog::kMendedNs, nobody),
            Lines{"Segment lan: node d receives frames from node a again"});
}

TEST_F(LinkLogTest, SaysWhenItIsMendedAndWhenItBreaksAgain) {
  ASSERT_EQ(At(3).size(), 2u);
  links_.OnFrame(1, true, now_);
  now_ += LinkLog::kMendedNs;
  EXPECT_EQ(log_.Update(links_, now_),
            Lines{"Segment lan: node a receives frames from node b again"});
  EXPECT_EQ(At(LinkLog::kMendedNs / kTimeout + 7).size(), 2u);
}

// Around a change of view, reports come and go within milliseconds.
TEST_F(LinkLogTest, SaysNothingOfALinkThatFlickers) {
  ASSERT_EQ(At(3).size(), 2u);
  const uint64_t nobody = 0, node_2 = 1 << 2;
  for (int i = 0; i < 10; ++i) {
    links_.OnFrame(1, true, now_);
    EXPECT_EQ(log_.Update(links_, now_ += LinkLog::kMendedNs / 20), Lines{});
    EXPECT_EQ(At(now_ / kTimeout + 3), Lines{});
  }
  links_.OnReport(1, std::as_bytes(std::span(&node_2, 1)), 0, now_);
  EXPECT_EQ(At(now_ / kTimeout + 1), Lines{"Segment lan: node b receives no frames from node c"});
  links_.OnReport(1, std::as_bytes(std::span(&nobody, 1)), 0, now_);
  EXPECT_EQ(At(now_ / kTimeout + 1), Lines{});
}

}  // namespace
}  // namespace millrace::test
