#include "test/chaos/fault_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

std::string TextOf(const std::vector<Fault>& plan) {
  std::string text;
  for (const Fault& fault : plan) text += Describe(fault) + "\n";
  return text;
}

// Number of nodes that a process fault disturbs.
int DisturbedBy(const Fault& fault) { return fault.kind == FaultKind::kKillTwo ? 2 : 1; }

bool At(const Fault& fault, double time) { return fault.begin <= time && time < fault.end; }

TEST(FaultPlan, IsThatOfItsSeed) {
  const PlanOptions options{.seed = Seed(), .nodes = 4, .seconds = 200};
  EXPECT_EQ(TextOf(MakePlan(options)), TextOf(MakePlan(options)));
  PlanOptions other = options;
  ++other.seed;
  EXPECT_NE(TextOf(MakePlan(options)), TextOf(MakePlan(other)));
  other = options;
  other.first_kind = 1;
  EXPECT_NE(TextOf(MakePlan(options)), TextOf(MakePlan(other)));
}

TEST(FaultPlan, HasEachKindBeforeOneComesAgain) {
  // The second plan continues where the first one ends.
  const std::vector<Fault> first =
      MakePlan({.seed = Seed(), .nodes = 3, .seconds = 15, .first_kind = 0});
  ASSERT_LT(first.size(), size_t{kFaultKinds});
  const std::vector<Fault> second = MakePlan(
      {.seed = Seed(), .nodes = 5, .seconds = 300, .first_kind = static_cast<int>(first.size())});
  std::set<FaultKind> kinds;
  for (const Fault& fault : first) EXPECT_TRUE(kinds.insert(fault.kind).second);
  for (size_t i = 0; kinds.size() < size_t{kFaultKinds}; ++i) {
    ASSERT_LT(i, second.size());
    EXPECT_TRUE(kinds.insert(second[i].kind).second) << Describe(second[i]);
  }
}

TEST(FaultPlan, FillsItsTimeWithFaultsAloneAndOverlapping) {
  const std::vector<Fault> plan = MakePlan({.seed = Seed(), .nodes = 4, .seconds = 500});
  EXPECT_GT(plan.back().end, 480);
  size_t alone = 0, overlapping = 0, most = 0;
  double last_end = 0;
  for (const Fault& fault : plan) {
    EXPECT_LE(fault.end, 500);
    EXPECT_GT(fault.end, fault.begin);
    (fault.begin >= last_end ? alone : overlapping) += 1;
    last_end = std::max(last_end, fault.end);
    most = std::max<size_t>(most, std::count_if(plan.begin(), plan.end(), [&](const Fault& each) {
                              return At(each, fault.begin);
                            }));
  }
  EXPECT_GT(alone, 10u);
  EXPECT_GT(overlapping, 10u);
  EXPECT_LE(most, 4u);
}

TEST(FaultPlan, LeavesOneNodeAtLeastAndDisturbsNoneTwice) {
  for (int nodes = 3; nodes <= 5; ++nodes) {
    const std::vector<Fault> plan = MakePlan({.seed = Seed(), .nodes = nodes, .seconds = 2000});
    for (const Fault& fault : plan) {
      if (!IsOfProcesses(fault.kind)) continue;
      int disturbed = 0, leaders = 0, faults = 0;
      std::set<int> named;
      for (const Fault& each : plan) {
        if (!IsOfProcesses(each.kind) || !At(each, fault.begin)) continue;
        ++faults;
        disturbed += DisturbedBy(each);
        leaders += each.kind == FaultKind::kKillLeader;
        for (const int node : {each.first, each.second}) {
          EXPECT_TRUE(node < 0 || named.insert(node).second) << Describe(fault);
        }
      }
      EXPECT_LT(disturbed, nodes) << Describe(fault);
      // The plan does not know which node is the leader.
      EXPECT_TRUE(leaders == 0 || faults == 1) << Describe(fault);
    }
  }
}

TEST(FaultPlan, NamesNodesAndGroupsThatThereAre) {
  for (int nodes = 3; nodes <= 5; ++nodes) {
    for (const Fault& fault : MakePlan({.seed = Seed(), .nodes = nodes, .seconds = 2000})) {
      EXPECT_LT(fault.first, nodes);
      EXPECT_LT(fault.second, nodes);
      EXPECT_TRUE(fault.second < 0 || (fault.first >= 0 && fault.first != fault.second));
      if (fault.kind != FaultKind::kSplit) continue;
      EXPECT_GT(fault.group, 0u);
      EXPECT_LT(std::popcount(fault.group), nodes);
      EXPECT_EQ(fault.group >> nodes, 0u);
    }
  }
}

TEST(FaultPlan, HasNoneOfTheKindsThatAreLeftOut) {
  const auto bit = [](FaultKind kind) { return 1u << static_cast<int>(kind); };
  const uint32_t without = bit(FaultKind::kStop) | bit(FaultKind::kReplay);
  std::set<FaultKind> kinds;
  for (const Fault& fault :
       MakePlan({.seed = Seed(), .nodes = 3, .seconds = 300, .without = without})) {
    kinds.insert(fault.kind);
  }
  EXPECT_EQ(kinds.size(), size_t{kFaultKinds} - 2);
  EXPECT_FALSE(kinds.contains(FaultKind::kStop) || kinds.contains(FaultKind::kReplay));
  EXPECT_EQ(ErrorOf([] { MakePlan({.seed = 1, .nodes = 3, .seconds = 9, .without = ~0u}); }),
            "a plan needs kinds of faults");
}

TEST(FaultPlan, RefusesClustersThatAFaultCouldLeaveEmpty) {
  EXPECT_EQ(ErrorOf([] { MakePlan({.seed = 1, .nodes = 2, .seconds = 10}); }),
            "a plan needs 3 to 9 nodes");
}

// Tests the preload library of nodes whose clock is set back.
TEST(SetClock, MovesTheWallClockOfAProgram) {
  const auto seconds = [](const std::string& shift) {
    const char* const build = getenv("BUILD");
    return std::stoll(
        test::Run({"/usr/bin/env",
                   std::string("LD_PRELOAD=") + (build ? build : "build") + "/test/set_clock.so",
                   "CLOCK_SHIFT_SECONDS=" + shift, "date", "+%s"})
            .output);
  };
  const int64_t before = seconds("0"), shifted = seconds("-1000000"), after = seconds("0");
  EXPECT_GE(shifted, before - 1000000);
  EXPECT_LE(shifted, after - 1000000);
}

}  // namespace
}  // namespace millrace::test
