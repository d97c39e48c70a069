#include "exchange/protocol/link_monitor.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace millrace {
namespace {

// The link monitor of node 1 in a view of four synced nodes.
class LinkMonitors : public testing::Test {
 protected:
  static constexpr int64_t kTimeout = 1000;

  LinkMonitors() {
    for (uint16_t node = 0; node < 4; ++node) {
      Member member;
      member.node = node;
      member.role = Role::kSynced;
      view_.members.push_back(member);
    }
    links_.OnView(view_, {}, 0);
  }
  // `node` reports that it receives no frames from node 0.
  void Report(uint16_t node) {
    const std::array<uint64_t, 1> report = {1};
    links_.OnReport(node, std::as_bytes(std::span(report)), 0, 0);
  }
  std::vector<uint16_t> ExcludedAt(int64_t now) {
    for (const Member& member : view_.members) links_.OnFrame(member.node, true, now);
    const std::array<uint64_t, 1> alive = {0b1111};
    links_.Update(view_, alive, now);
    std::vector<uint16_t> excluded;
    for (const Member& member : view_.members) {
      if (links_.IsExcluded(member.node)) excluded.push_back(member.node);
    }
    return excluded;
  }

  LinkMonitor links_{1, 4, kTimeout};
  View view_;
};

using Nodes = std::vector<uint16_t>;

// With a single report, either end could be faulty.
TEST_F(LinkMonitors, ExcludeNobodyBeforeTheOthersHaveReported) {
  EXPECT_EQ(ExcludedAt(10), Nodes{});
  Report(2);
  EXPECT_EQ(ExcludedAt(20), Nodes{});
  EXPECT_EQ(links_.broken().size(), 1u);
  Report(3);
  EXPECT_EQ(ExcludedAt(20 + kTimeout / 2 - 1), Nodes{});
  EXPECT_EQ(ExcludedAt(20 + kTimeout / 2), Nodes{0});
}

TEST_F(LinkMonitors, ExcludeTheLargerOfTwoThatAreAlike) {
  Report(2);
  EXPECT_EQ(ExcludedAt(20), Nodes{});
  EXPECT_EQ(ExcludedAt(20 + kTimeout / 2), Nodes{2});
}

// Otherwise no member would hold the weights.
TEST_F(LinkMonitors, ReportTheSilentButNotThemselvesWhenTheyGiveAViewUp) {
  for (const uint16_t node : {2, 3}) links_.OnFrame(node, true, 5 * kTimeout);
  links_.OnView({}, view_, 5 * kTimeout);
  EXPECT_TRUE(links_.Reports(1, 0));
  for (const uint16_t node : {1, 2, 3}) EXPECT_FALSE(links_.Reports(1, node)) << node;
}

TEST_F(LinkMonitors, ExcludeAllOthersRatherThanTheOnlyOneInSync) {
  for (uint16_t node : {1, 2, 3}) view_.members[node].role = Role::kJoining;
  Report(2);
  Report(3);
  EXPECT_EQ(ExcludedAt(20), Nodes{});
  EXPECT_EQ(ExcludedAt(20 + kTimeout / 2), (Nodes{2, 3}));
}

// Node 0 of two. Node 1 sends a heartbeat of ordinary size in each peer timeout.
class SmallFrames : public testing::Test {
 protected:
  static constexpr int64_t kTimeout = 1000;

  SmallFrames() {
    for (const uint16_t node : {0, 1}) view_.members.push_back({node, Role::kSynced, 1, 0});
    links_.OnView(view_, {}, 0);
  }
  // After another peer timeout, in which node 1 has sent full-size frames, `sent` of them so far.
  bool IsReported(uint16_t sent, bool arrives = false) {
    now_ += kTimeout;
    links_.OnFrame(1, arrives, now_);
    const uint64_t nobody = 0;
    links_.OnReport(1, std::as_bytes(std::span(&nobody, 1)), sent, now_);
    const uint64_t alive[] = {3};
    links_.Update(view_, alive, now_);
    return links_.Reports(0, 1);
  }

  LinkMonitor links_{0, 2, kTimeout};
  View view_;
  int64_t now_ = 0;
};

TEST_F(SmallFrames, AreReportedOnceTwelveLargeOnesWereMissed) {
  for (const uint16_t first : {0, 65530}) {  // counts wrap
    uint16_t sent = first;
    EXPECT_FALSE(IsReported(sent, true));
    for (int missed = 1; missed < LinkMonitor::kMissed; ++missed) {
      EXPECT_FALSE(IsReported(++sent)) << missed;
    }
    EXPECT_TRUE(IsReported(++sent));
    EXPECT_FALSE(IsReported(++sent, true)) << "one has arrived";
  }
}

TEST_F(SmallFrames, AreReportedAfterThreeTimeoutsWhereManyLargeOnesAreSent) {
  EXPECT_FALSE(IsReported(8, true));
  EXPECT_FALSE(IsReported(16));
  EXPECT_FALSE(IsReported(24));
  EXPECT_TRUE(IsReported(32));
}

TEST_F(SmallFrames, DoNotCountWhatArrivedOrWasSentByAnEarlierStart) {
  uint16_t sent = 500;
  EXPECT_FALSE(IsReported(0, true));
  EXPECT_FALSE(IsReported(sent, true)) << "these have arrived";
  for (int i = 0; i < 11; ++i) EXPECT_FALSE(IsReported(++sent));
  EXPECT_FALSE(IsReported(0)) << "started again";
  for (sent = 1; sent < LinkMonitor::kMissed; ++sent) EXPECT_FALSE(IsReported(sent)) << sent;
  EXPECT_TRUE(IsReported(sent));
}

TEST_F(SmallFrames, AreReportedWhereNoHeartbeatArrives) {
  const uint64_t alive[] = {3};
  for (int64_t timeouts = 1; timeouts <= LinkMonitor::kSmallOnlyTimeouts; ++timeouts) {
    links_.OnFrame(1, false, timeouts * kTimeout);
    links_.Update(view_, alive, timeouts * kTimeout);
    EXPECT_EQ(links_.Reports(0, 1), timeouts == LinkMonitor::kSmallOnlyTimeouts);
  }
}

// Nodes 0 to `bad` - 1 and the others do not receive each other's frames. The smaller group is the
// smallest set whose exclusion leaves no broken link.
TEST(LinkMonitor, ExcludesTheSmallerOfTwoLargeGroups) {
  constexpr uint16_t kCount = 1024;
  constexpr int64_t kTimeout = 1'000'000;
  for (const uint16_t bad : {1, 300, 512}) {
    LinkMonitor links(0, kCount, kTimeout);
    View view;
    view.id = {1, 0, 1};
    for (uint16_t node = 0; node < kCount; ++node) {
      view.members.push_back({node, Role::kSynced, 1, 0});
    }
    links.OnView(view, {}, 0);
    const std::vector<uint64_t> alive(kCount / 64, ~uint64_t{0});
    for (const int64_t now : {kTimeout / 4, kTimeout}) {
      for (uint16_t node = 0; node < kCount; ++node) {
        std::vector<uint64_t> row(kCount / 64);
        for (uint16_t other = 0; other < kCount; ++other) {
          if ((node < bad) != (other < bad)) SetBit(row, other, true);
        }
        links.OnReport(node, std::as_bytes(std::span(row)), 0, now);
        links.OnFrame(node, true, now);
      }
      links.Update(view, alive, now);
    }
    for (uint16_t node = 0; node < kCount; ++node) {
      EXPECT_EQ(links.IsExcluded(node), bad == 512 ? node >= bad : node < bad) << node;
    }
  }
}

}  // namespace
}  // namespace millrace
