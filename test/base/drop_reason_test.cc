#include "base/drop_reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace millrace {
namespace {

TEST(DropReason, HasAnOwnNameAHelpTextAndAComponent) {
  std::set<std::string> names;
  std::set<DropReason> used;
  for (size_t i = 0; i < kDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_TRUE(names.insert(DropReasonName(reason)).second) << DropReasonName(reason);
    EXPECT_NE(std::string(DropReasonHelp(reason)), "") << DropReasonName(reason);
  }
  for (size_t i = 0; i < kDropComponents; ++i) {
    const auto component = static_cast<DropComponent>(i);
    EXPECT_TRUE(names.insert(DropComponentName(component)).second) << DropComponentName(component);
    const std::vector<DropReason> reasons = DropReasonsOf(component);
    used.insert(reasons.begin(), reasons.end());
  }
  EXPECT_EQ(used.size(), kDropReasons - 1);
  EXPECT_FALSE(used.contains(DropReason::kNone));
}

TEST(DropReason, BelongsToTheComponentsThatCountIt) {
  using Reasons = std::vector<DropReason>;
  EXPECT_EQ(DropReasonsOf(DropComponent::kFilter),
            (Reasons{DropReason::kSourceMismatch, DropReason::kNoSession, DropReason::kBadTag,
                     DropReason::kReplayed}));
  EXPECT_EQ(DropReasonsOf(DropComponent::kTransport).front(), DropReason::kTooLong);
  EXPECT_STREQ(DropComponentName(DropComponent::kTransport), "transport");
  EXPECT_STREQ(DropComponentName(DropComponent::kGossip), "gossip");
}

TEST(DropCounts, CountsAcceptedFramesButNotInTheTotal) {
  DropCounts counts, more;
  counts.Add(DropReason::kNone, 5);
  counts.Add(DropReason::kOld);
  more.Add(DropReason::kOld, 2);
  more.Add(DropReason::kBusy);
  counts += more;
  EXPECT_EQ(counts[DropReason::kNone], 5u);
  EXPECT_EQ(counts[DropReason::kOld], 3u);
  EXPECT_EQ(counts.total(), 4u);
  EXPECT_NE(counts, more);
}

TEST(DropCounters, ReadWhatTheyCounted) {
  DropCounters counters;
  counters.Add(DropReason::kOverrun, 7);
  counters.Add(DropReason::kUnknownSender);
  const DropCounts counts = counters.Read();
  EXPECT_EQ(counts[DropReason::kOverrun], 7u);
  EXPECT_EQ(counters[DropReason::kOverrun], 7u);
  EXPECT_EQ(counts.total(), 8u);
  EXPECT_EQ(counters.total(), 8u);
}

}  // namespace
}  // namespace millrace
