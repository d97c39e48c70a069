#include "cluster/graceful_leave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "test/sim/leaving_cluster.h"
#include "test/support/fake_clock.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

using sim::kMs;
using sim::kNever;
using sim::LeavingCluster;

using Nodes = std::vector<int>;
constexpr int64_t kHandOverMs = GracefulLeave::kHandOverNs / kMs,
                  kTurnMs = GracefulLeave::kTurnNs / kMs,
                  kAnswerEndMs = GracefulLeave::kAnswerEndNs / kMs,
                  kMinHandOverMs = GracefulLeave::kMinHandOverNs / kMs;
// Longer than any wait limit.
constexpr int64_t kSlowNs = 60'000 * kMs;

TEST(GracefulLeave, OfAllAtOnceHandsOverAndLeavesOneThatSaves) {
  LeavingCluster cluster(3);
  for (int i : {0, 1, 2}) cluster.Stop(i);
  cluster.Run(300);
  for (int i : {1, 2}) EXPECT_NE(cluster.node(i).left_ns, kNever);
  EXPECT_EQ(cluster.Last(), Nodes{0});
}

TEST(GracefulLeave, IsBoundedWhereLinksAreSlow) {
  LeavingCluster cluster(3);
  cluster.set_delay_ms(400);
  for (int i : {0, 1, 2}) cluster.node(i).hand_over_ns = kSlowNs;
  for (int i : {0, 1, 2}) cluster.Stop(i);
  cluster.Run(5000);
  for (int i : {0, 1, 2}) EXPECT_EQ(cluster.MsAfterSignal(i), kHandOverMs);
  EXPECT_EQ(cluster.Last(), Nodes{0});
}

TEST(GracefulLeave, OfOneNodeLeavesTheSnapshotToTheOthers) {
  LeavingCluster cluster(3);
  cluster.Stop(1);
  cluster.Run(5000);
  EXPECT_NE(cluster.node(1).left_ns, kNever);
  EXPECT_LT(cluster.MsAfterSignal(1), kTurnMs);  // it waits for no other node
  EXPECT_EQ(cluster.Last(), Nodes{});
}

TEST(GracefulLeave, OfTheLeaderGivesTheOthersATurnToStopToo) {
  LeavingCluster cluster(3);
  cluster.Stop(0);
  cluster.Run(5000);
  EXPECT_NE(cluster.node(0).left_ns, kNever);
  EXPECT_GE(cluster.MsAfterSignal(0), kTurnMs);
  EXPECT_LT(cluster.MsAfterSignal(0), kHandOverMs);
  EXPECT_EQ(cluster.Last(), Nodes{});
}

TEST(GracefulLeave, IsBoundedAndSavesNothingWhileSomeNodeGoesOn) {
  LeavingCluster cluster(3);
  for (int i : {0, 2}) cluster.node(i).hand_over_ns = kSlowNs;
  for (int i : {0, 2}) cluster.Stop(i);
  cluster.Run(5000);
  for (int i : {0, 2}) EXPECT_EQ(cluster.MsAfterSignal(i), kHandOverMs);
  EXPECT_EQ(cluster.Last(), Nodes{});
  cluster.Stop(1);
  cluster.Run(3000);
  EXPECT_EQ(cluster.Last(), Nodes{1});
}

// Nodes are stopped in sequence, as a script does.
TEST(GracefulLeave, OfOneAfterTheOtherLeavesOneThatSaves) {
  for (const int64_t between_ms : {100, 400, 700, 1400}) {
    for (const int64_t hand_over_ms : {20, 300, 60'000}) {
      LeavingCluster cluster(3);
      for (int i : {0, 1, 2}) cluster.node(i).hand_over_ns = hand_over_ms * kMs;
      for (int i : {0, 1, 2}) cluster.Stop(i, between_ms * i);
      cluster.Run(10'000);
      for (int i : {0, 1, 2}) EXPECT_LE(cluster.MsAfterSignal(i), kHandOverMs);
      EXPECT_EQ(cluster.Last().size(), 1u) << between_ms << " " << hand_over_ms;
    }
  }
}

TEST(GracefulLeave, DoesNotCountOnTheDead) {
  for (const int dead : {0, 1, 2}) {
    LeavingCluster cluster(3);
    cluster.node(dead).died_ns = cluster.Now();
    for (int i : {0, 1, 2}) cluster.Stop(i);
    cluster.Run(5000);
    for (int i : {0, 1, 2}) {
      EXPECT_EQ(cluster.MsAfterSignal(i), i == dead ? -1 : kHandOverMs);
    }
    EXPECT_EQ(cluster.Last(), Nodes{dead == 0 ? 1 : 0});
  }
}

// Each partition may have made progress of its own, so each needs a final snapshot.
TEST(GracefulLeave, OfPartitionsLeavesOneNodeInEachThatSaves) {
  LeavingCluster cluster(4);
  cluster.Partition(0b1010);
  for (int i : {0, 1, 2, 3}) cluster.Stop(i);
  cluster.Run(5000);
  EXPECT_EQ(cluster.Last(), (Nodes{0, 1}));
}

TEST(GracefulLeave, HasTimeLeftAfterALongIteration) {
  LeavingCluster cluster(3);
  for (int i : {0, 1, 2}) cluster.node(i).hand_over_ns = 100 * kMs;
  for (int i : {0, 1, 2}) cluster.Stop(i, 0, 7000 + 20 * i);
  cluster.Run(10'000);
  for (int i : {1, 2}) EXPECT_NE(cluster.node(i).left_ns, kNever);
  for (int i : {0, 1, 2}) {
    EXPECT_LE(cluster.MsAfterSignal(i), 7000 + 20 * i + kMinHandOverMs);
  }
  EXPECT_EQ(cluster.Last(), Nodes{0});
}

// Random schedules: no wait exceeds its limit. If no node dies and all nodes stop at the same time,
// exactly one saves.
TEST(GracefulLeave, IsBoundedInAnyCase) {
  for (uint64_t round = 0; round < 2000; ++round) {
    Rng rng(Seed(), {round});
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(rng.Uniform() * static_cast<double>(n));
    };
    const int count = 1 + static_cast<int>(below(5));
    LeavingCluster cluster(count);
    cluster.set_delay_ms(below(150));
    const bool together = below(2) == 0, deaths = below(3) == 0;
    for (int i = 0; i < count; ++i) {
      cluster.node(i).hand_over_ns = below(2000) * kMs;
      if (deaths && below(3) == 0) cluster.node(i).died_ns = below(3000) * kMs;
      cluster.Stop(i, 1000 + below(together ? 100 : 3000), below(together ? 100 : 2000));
    }
    cluster.Run(20'000);
    for (int i = 0; i < count; ++i) {
      const LeavingCluster::Node& node = cluster.node(i);
      if (node.died_ns != kNever) continue;
      const int64_t iteration_ms = (node.solvers_end_ns - node.signal_ns) / kMs;
      ASSERT_GE(cluster.MsAfterSignal(i), 0) << round;
      // The simulation step is 5 ms.
      ASSERT_LE(cluster.MsAfterSignal(i), 5 + std::max(kHandOverMs, iteration_ms + kMinHandOverMs))
          << round;
    }
    if (together && !deaths) {
      ASSERT_EQ(cluster.Last().size(), 1u) << round;
    }
  }
}

// One node in a cluster that never lets it leave.
class StuckGracefulLeave : public testing::Test {
 protected:
  StuckGracefulLeave() {
    peers_.on_responsive = [this](Recency) { return responsive_; };
    peers_.on_is_leader = [] { return true; };
    peers_.on_has_dependents = [this] { return depend_; };
    peers_.on_alone = [this] { return alone_; };
    peers_.on_all_acked = peers_.on_left = peers_.on_delivered =
        peers_.on_idle = [] { return false; };
    peers_.on_members = [] { return 2u; };
  }

  // Milliseconds until `condition` holds.
  template <typename Condition>
  int64_t Until(Condition condition) {
    const int64_t begin = clock_.NowNs();
    while (!condition()) clock_.AdvanceNs(5 * kMs);
    return (clock_.NowNs() - begin) / kMs;
  }

  FakeClock clock_;
  std::optional<int64_t> signal_ns_;
  bool depend_ = true, alone_ = false;
  std::vector<NodeId> responsive_{0};
  sim::FakePeers peers_{1};
  TerminationDetector termination_{&peers_, {}, &clock_};
  GracefulLeave leave_{&peers_, [this] { return signal_ns_; }, &clock_};
};

// The peers send no acknowledgement and no view without this node.
TEST_F(StuckGracefulLeave, LosesSomethingOnlyWhereReplicasAreApart) {
  depend_ = false;
  for (const bool same : {false, true}) {
    if (same) responsive_.clear();
    ASSERT_EQ(termination_.Update() == TerminationDetector::State::kQuiescent, same);
    leave_.Begin(&termination_, LeaveReason::kEnd);
    EXPECT_EQ(Until([&] { return leave_.Step(); }), 2 * GracefulLeave::kLeaveNs / kMs);
    EXPECT_FALSE(leave_.last());
    EXPECT_EQ(leave_.timed_out(), !same);
  }
  signal_ns_ = clock_.NowNs();
  responsive_ = {0};
  leave_.Begin(&termination_, LeaveReason::kStopped);  // stopped by a signal during training
  Until([&] { return leave_.Step(); });
  EXPECT_TRUE(leave_.timed_out());
}

// The signal arrives while the node waits for its dependents, for acknowledgements, or for its
// removal.
TEST_F(StuckGracefulLeave, AfterTheScheduleIsCutShortByASignal) {
  constexpr int64_t kPublishMs = 1000, kLeaveMs = GracefulLeave::kLeaveNs / kMs;
  for (const int64_t signal_ms : {int64_t{5000}, kPublishMs + 500, kPublishMs + kLeaveMs + 500}) {
    signal_ns_.reset();
    depend_ = true;
    leave_.Begin(&termination_, LeaveReason::kEnd);
    for (int64_t ms = 0; ms < signal_ms; ms += 5) {
      depend_ = signal_ms == 5000 || ms < kPublishMs;
      ASSERT_FALSE(leave_.Step()) << ms;
      clock_.AdvanceNs(5 * kMs);
    }
    signal_ns_ = clock_.NowNs();
    const int64_t ends_ms = kPublishMs + 2 * kLeaveMs - signal_ms;  // without the signal
    EXPECT_EQ(Until([&] { return leave_.Step(); }),
              depend_ ? kHandOverMs : std::min(kHandOverMs, ends_ms));
    EXPECT_FALSE(leave_.last());
  }
}

// Others train on for hours.
TEST_F(StuckGracefulLeave, EarlyWaitsForNoDependentNode) {
  depend_ = true;
  leave_.Begin(&termination_, LeaveReason::kEarly);
  // These acknowledge nothing: it goes after the time to publish that and to hand over.
  EXPECT_EQ(Until([&] { return leave_.Step(); }),
            (GracefulLeave::kLeaveNs + GracefulLeave::kFinishNs) / kMs);
  EXPECT_FALSE(leave_.last());
  EXPECT_TRUE(leave_.timed_out());
  // These acknowledge all at once.
  peers_.on_all_acked = peers_.on_left = peers_.on_delivered = [] { return true; };
  leave_.Begin(&termination_, LeaveReason::kEarly);
  EXPECT_TRUE(leave_.Step());
  EXPECT_FALSE(leave_.last());
}

TEST_F(StuckGracefulLeave, OfANodeThatNeverWasInSyncIsBounded) {
  signal_ns_ = clock_.NowNs();
  leave_.BeginUnsynced();
  EXPECT_EQ(Until([&] { return leave_.Step(); }), kHandOverMs);
  EXPECT_FALSE(leave_.last());
}

TEST_F(StuckGracefulLeave, AnswersOthersOnlyAsTheLastOneAndNotForLong) {
  signal_ns_ = clock_.NowNs();
  leave_.Begin(&termination_, LeaveReason::kStopped);
  EXPECT_EQ(Until([&] { return leave_.Step(); }), kHandOverMs);
  EXPECT_TRUE(leave_.HasReplied());
  alone_ = true;
  signal_ns_ = clock_.NowNs();
  leave_.Begin(&termination_, LeaveReason::kStopped);
  EXPECT_TRUE(leave_.Step());
  EXPECT_TRUE(leave_.last());
  clock_.AdvanceNs(1200 * kMs);  // time taken by the snapshot
  Until([&] { return leave_.HasReplied(); });
  EXPECT_EQ((clock_.NowNs() - *signal_ns_) / kMs, kAnswerEndMs);
}

}  // namespace
}  // namespace millrace::test
