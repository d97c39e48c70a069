#include "exchange/protocol/diff_cycle.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMin = 100, kUsual = 400;
// An iteration of each of two members after the beginning of a cycle.
constexpr TrainingClock kLater = {.cluster = 2, .members = 2};

TEST(DiffCycle, WaitsForNobodyAtFirst) { EXPECT_FALSE(DiffCycle().Waits(0, kMin, kUsual, kLater)); }

TEST(DiffCycle, EndsWhenAllHaveAnswered) {
  DiffCycle cycle;
  cycle.Begin(3, 1000, {});
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_TRUE(cycle.Waits(1001 + worker, kMin, kUsual, kLater));
    cycle.Merged();
  }
  EXPECT_FALSE(cycle.Waits(1004, kMin, kUsual, kLater));
  cycle.Begin(1, 1005, {});
  EXPECT_TRUE(cycle.Waits(1005, kMin, kUsual, kLater));
}

TEST(DiffCycle, WaitsForTheSecondHalfAsLongAsForTheFirst) {
  DiffCycle cycle;
  cycle.Begin(4, 1000, {});
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1040, kMin, kUsual, kLater));
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1050, kMin, kUsual, kLater));
  cycle.Merged();  // does not begin another wait
  EXPECT_TRUE(cycle.Waits(1099, kMin, kUsual, kLater));
  EXPECT_FALSE(cycle.Waits(1100, kMin, kUsual, kLater));
}

TEST(DiffCycle, WaitsForTheFirstHalfTwiceAsLongAsItLastTook) {
  DiffCycle cycle;
  cycle.Begin(2, 0, {});
  EXPECT_FALSE(cycle.Waits(kMin, kMin, kUsual, kLater));
  cycle.Begin(2, 1000, {});
  cycle.Merged();
  EXPECT_TRUE(cycle.Waits(1300, kMin, kUsual, kLater));  // half of them took 300
  for (int i = 0; i < 3; ++i) {  // the time does not grow with each wait in vain
    cycle.Begin(2, 2000, {});
    EXPECT_TRUE(cycle.Waits(2599, kMin, kUsual, kLater));
    EXPECT_FALSE(cycle.Waits(2600, kMin, kUsual, kLater));
  }
}

// Workers that have no progress do not answer, however long that lasts.
TEST(DiffCycle, IsTimedFromTheFirstDiffAfterAnIdleTime) {
  for (const int64_t idle : {int64_t{kUsual}, int64_t{100'000}}) {
    DiffCycle cycle;
    cycle.Begin(5, 1000, {});
    cycle.Merged();
    EXPECT_TRUE(cycle.Waits(1000 + idle, kMin, kUsual, kLater));
    EXPECT_TRUE(cycle.Waits(1000 + idle + kMin - 1, kMin, kUsual, kLater));
    EXPECT_FALSE(cycle.Waits(1000 + idle + kMin, kMin, kUsual, kLater));
    cycle.Merged();
    cycle.Merged();
    EXPECT_TRUE(cycle.Waits(1000 + idle + 30, kMin, kUsual, kLater));  // half of them took 30
    EXPECT_FALSE(cycle.Waits(1000 + idle + 60, kMin, kUsual, kLater));
  }
}

TEST(DiffCycle, DoesNotGrowWhileWorkersPause) {
  DiffCycle cycle;
  for (int64_t begin = 0; begin < 1'000'000'000; begin += 10'000'000) {
    cycle.Begin(2, begin, {});
    cycle.Merged();
    EXPECT_FALSE(cycle.Waits(begin + 9'000'000, kMin, kUsual, kLater));
  }
}

// A worker that has made no iteration since the position has nothing to send.
TEST(DiffCycle, DoesNotWaitBeforeEachMemberCouldMakeAnIteration) {
  DiffCycle cycle;
  cycle.Begin(2, 1000, {.cluster = 0xffff'ffff, .members = 3});
  const auto waits = [&](uint64_t iterations) {
    return cycle.Waits(1001, kMin, kUsual, {.cluster = iterations, .members = 3});
  };
  EXPECT_FALSE(waits(0xffff'ffff));
  EXPECT_FALSE(waits(0x1'0000'0001));
  EXPECT_TRUE(waits(0x1'0000'0002));
  EXPECT_FALSE(waits(0xffff'fff0));  // the count of the cluster has fallen
}

TEST(DiffCycle, IsYoungUntilSoManyIterationsHavePassed) {
  DiffCycle cycle;
  cycle.Begin(2, 1000, {.cluster = 0xffff'fffe, .members = 2});
  const auto is_young = [&](int64_t spacing, uint64_t iterations) {
    return cycle.IsYoung(spacing, {.cluster = iterations, .members = 2});
  };
  EXPECT_TRUE(is_young(5, 0xffff'fffe));
  EXPECT_TRUE(is_young(5, 0x1'0000'0002));
  EXPECT_FALSE(is_young(5, 0x1'0000'0003));
  EXPECT_FALSE(is_young(0, 0xffff'fffe));
  EXPECT_FALSE(is_young(5, 0xffff'fff0));  // the count of the cluster has fallen
}

}  // namespace
}  // namespace millrace
