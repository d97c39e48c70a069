#include "exchange/protocol/diff_cycle.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kLeast = 100;

TEST(DiffCycle, WaitsForNobodyAtFirst) { EXPECT_FALSE(DiffCycle().Waits(0, kLeast)); }

TEST(DiffCycle, EndsWhenAllHaveAnswered) {
  DiffCycle cycle;
  cycle.Begin(3, 1000);
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_TRUE(cycle.Waits(1001 + worker, kLeast));
    cycle.Merged();
  }
  EXPECT_FALSE(cycle.Waits(1004, kLeast));
  cycle.Begin(1, 1005);
  EXPECT_TRUE(cycle.Waits(1005, kLeast));
}

TEST(DiffCycle, WaitsForTheSecondHalfAsLongAsForTheFirst) {
  DiffCycle cycle;
  cycle.Begin(4, 1000);
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1040, kLeast));
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1050, kLeast));
  cycle.Merged();  // does not begin another wait
  EXPECT_TRUE(cycle.Waits(1099, kLeast));
  EXPECT_FALSE(cycle.Waits(1100, kLeast));
}

TEST(DiffCycle, WaitsForTheFirstHalfTwiceAsLongAsItLastTook) {
  DiffCycle cycle;
  cycle.Begin(2, 0);
  EXPECT_FALSE(cycle.Waits(kLeast, kLeast));
  cycle.Begin(2, 1000);
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1300, kLeast));  // half of them took 300
  for (int i = 0; i < 3; ++i) {            // the time does not grow with each wait in vain
    cycle.Begin(2, 2000);
    EXPECT_TRUE(cycle.Waits(2599, kLeast));
    EXPECT_FALSE(cycle.Waits(2600, kLeast));
  }
}

}  // namespace
}  // namespace millrace
