#include "segment/pace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace {
namespace {

constexpr int64_t kOneMs = 1'000'000, kOneSecond = 1'000 * kOneMs;
// Ratio of the solvers' total loss, evicted caches included, to the processor time they lose
// (pace.cc).
constexpr double kWithCaches = 1.6;

// A machine on which the segment's thread has work for `demand` of a processor, and the solvers
// would use all of theirs. `idle` is the share of a processor that no thread uses.
struct Machine {
  int solvers = 1;
  double demand = 0.5;
  double idle = 0;
  bool training = true;
  double exchanges_per_cpu_second = 1'000, iterations_per_second = 100;
};

class PaceTest : public testing::Test {
 protected:
  // Lets the segment work on the machine for `for_ns`, in passes of up to 0.5 ms of work.
  void Run(const Machine& machine, int64_t for_ns) {
    const int64_t end = now_ + for_ns, begin = now_;
    const int64_t used_before = counters_.segment_cpu_ns;
    rested_most_ = 0;
    while (now_ < end) {
      if (pace_.Due(now_)) pace_.Update(now_, counters_);
      const int64_t rest = pace_.RestNs(now_, counters_.segment_cpu_ns);
      rested_most_ = std::max(rested_most_, rest);
      if (rest > 0) {
        Pass(machine, rest, 0);
      } else {
        constexpr int64_t kWork = kOneMs / 2;
        const auto every = static_cast<int64_t>(kWork / machine.demand);
        Pass(machine, every, kWork);
      }
    }
    used_ = static_cast<double>(counters_.segment_cpu_ns - used_before) /
            static_cast<double>(now_ - begin);
  }

  void Pass(const Machine& machine, int64_t elapsed, int64_t work) {
    now_ += elapsed;
    counters_.segment_cpu_ns += work;
    counters_.exchanges +=
        static_cast<double>(work) / kOneSecond * machine.exchanges_per_cpu_second;
    if (!machine.training) return;
    const auto wanted = static_cast<double>(elapsed) * machine.solvers;
    const double free = machine.idle * static_cast<double>(elapsed);
    const double waits = std::clamp(static_cast<double>(work) - free, 0.0, wanted);
    counters_.solvers.waiting_ns += static_cast<int64_t>(waits);
    counters_.solvers.cpu_ns += static_cast<int64_t>(wanted - waits);
    iterations_ += static_cast<double>(elapsed) / kOneSecond * machine.iterations_per_second;
    counters_.iterations = static_cast<uint64_t>(iterations_);
  }

  explicit PaceTest(double stale_own_iterations = 0)
      : pace_(
            {.share = 0.05, .stale_iterations = 64, .stale_own_iterations = stale_own_iterations}) {
  }

  Pace pace_;
  PaceCounters counters_;
  int64_t now_ = kOneSecond, rested_most_ = 0;
  double iterations_ = 0;
  double used_ = 0;  // share of a processor in the last Run
};

// A kernel without /proc/PID/schedstat counts nothing.
TEST_F(PaceTest, SaysOnceThatTheSystemDoesNotCountTheSolversTimes) {
  const auto periods = [&](int count) {
    int said = 0;
    for (int i = 0; i < count; ++i) {
      pace_.Update(now_ += Pace::kPeriodNs, counters_);
      said += pace_.TakeUncounted();
    }
    return said;
  };
  EXPECT_EQ(periods(3 * Pace::kUncountedPeriods), 0);  // no solver yet
  counters_.solver_threads = 2;
  EXPECT_EQ(periods(Pace::kUncountedPeriods - 1), 0);
  EXPECT_EQ(periods(5 * Pace::kUncountedPeriods), 1);
  EXPECT_EQ(pace_.duty(), 1);
}

TEST_F(PaceTest, SaysNothingWhereTheSystemCounts) {
  counters_.solver_threads = 1;
  counters_.solvers.cpu_ns = 1;
  for (int i = 0; i < 3 * Pace::kUncountedPeriods; ++i) {
    pace_.Update(now_ += Pace::kPeriodNs, counters_);
    EXPECT_FALSE(pace_.TakeUncounted()) << i;
  }
}

TEST_F(PaceTest, TakesItsShareOfAProcessorThatASolverWants) {
  Run({}, 5 * kOneSecond);
  Run({}, 5 * kOneSecond);
  EXPECT_NEAR(kWithCaches * used_, 0.05, 0.01);
  EXPECT_NEAR(pace_.taken(), 0.05, 0.01);
  EXPECT_LE(rested_most_, Pace::kMaxRestNs);
}

TEST_F(PaceTest, TakesTheSameShareOfSeveralSolvers) {
  const Machine machine{.solvers = 4};
  Run(machine, 5 * kOneSecond);
  Run(machine, 5 * kOneSecond);
  EXPECT_NEAR(kWithCaches * used_ / 4, 0.05, 0.01);
}

TEST_F(PaceTest, HasNoLimitWhileAProcessorIsIdle) {
  const Machine machine{.idle = 1};
  Run(machine, 5 * kOneSecond);
  EXPECT_EQ(pace_.duty(), 1);
  EXPECT_NEAR(used_, machine.demand, 0.01);
  EXPECT_EQ(rested_most_, 0);
}

TEST_F(PaceTest, UsesWhatIsIdleAndItsShareBeside) {
  const Machine machine{.idle = 0.2};
  Run(machine, 10 * kOneSecond);
  Run(machine, 5 * kOneSecond);
  EXPECT_GT(used_, 0.05 / kWithCaches);
  EXPECT_NEAR(pace_.taken(), 0.05, 0.015);
}

TEST_F(PaceTest, NeedsNoLimitWhereItHasLittleToDo) {
  const Machine machine{.demand = 0.01};
  Run(machine, 5 * kOneSecond);
  EXPECT_EQ(pace_.duty(), 1);
  EXPECT_NEAR(used_, 0.01, 0.002);
}

TEST_F(PaceTest, HasNoLimitWhileNobodyTrains) {
  Run({}, 5 * kOneSecond);
  EXPECT_LT(pace_.duty(), 0.1);
  Run({.training = false}, Pace::kPeriodNs + 50 * kOneMs);
  EXPECT_EQ(pace_.duty(), 1);
}

TEST_F(PaceTest, FollowsAProcessorThatIsTakenAndGivenBack) {
  Run({.idle = 1}, 2 * kOneSecond);
  Run({}, 2 * kOneSecond);
  EXPECT_LT(pace_.duty(), 0.06);
  Run({.idle = 1}, 3 * kOneSecond);
  EXPECT_EQ(pace_.duty(), 1);
}

// A solver with fast iterations, and weights that take long to exchange.
TEST_F(PaceTest, TakesMoreThanItsShareBeforeExchangesBecomeStale) {
  const Machine machine{.exchanges_per_cpu_second = 10, .iterations_per_second = 100};
  Run(machine, 20 * kOneSecond);
  Run(machine, 10 * kOneSecond);
  // 100 iterations a second, and 64 of them between exchanges.
  EXPECT_NEAR(used_, 100.0 / 64 / 10, 0.03);
  EXPECT_GT(pace_.taken(), 0.1);
}

class PaceOfAveragesTest : public PaceTest {
 protected:
  PaceOfAveragesTest() : PaceTest(3.5) {}
};

// Members that average their progress learn only as fast as their exchanges are fresh.
TEST_F(PaceOfAveragesTest, TakesMoreBeforeTheIterationsOfOneMemberBecomeStale) {
  const Machine machine{.exchanges_per_cpu_second = 50, .iterations_per_second = 100};
  counters_.members = 4;
  Run(machine, 20 * kOneSecond);
  Run(machine, 10 * kOneSecond);
  EXPECT_NEAR(used_, 100.0 / (4 * 3.5) / 50, 0.03);
  counters_.members = 2;  // as many of all
  Run(machine, 20 * kOneSecond);
  Run(machine, 10 * kOneSecond);
  EXPECT_NEAR(used_, 100.0 / (4 * 3.5) / 50, 0.03);
  counters_.members = 16;  // 56 iterations of all
  Run(machine, 20 * kOneSecond);
  Run(machine, 10 * kOneSecond);
  EXPECT_NEAR(used_, 100.0 / (16 * 3.5) / 50, 0.01);
  counters_.members = 32;  // at most 64
  Run(machine, 20 * kOneSecond);
  Run(machine, 10 * kOneSecond);
  EXPECT_NEAR(kWithCaches * used_, 0.05, 0.01);
}

// More positions than fresh averages need would cost solvers time.
TEST_F(PaceOfAveragesTest, SpacesPositionsWhileFreshExchangesCostMoreThanItsShare) {
  counters_.members = 4;
  const Machine costly{.exchanges_per_cpu_second = 50, .iterations_per_second = 100};
  Run(costly, 20 * kOneSecond);
  EXPECT_EQ(pace_.spacing(), 5);  // of 4 * 3.5
  counters_.members = 8;
  Run(costly, kOneSecond);
  EXPECT_EQ(pace_.spacing(), 11);
  Run({.idle = 1, .exchanges_per_cpu_second = 50}, 5 * kOneSecond);
  EXPECT_EQ(pace_.spacing(), 0);
  Run(costly, 20 * kOneSecond);
  EXPECT_GT(pace_.spacing(), 0);
  Run({.training = false}, kOneSecond);
  EXPECT_EQ(pace_.spacing(), 0);
}

TEST_F(PaceTest, SpacesNoPositionsWhereNobodyAverages) {
  counters_.members = 4;
  Run({.exchanges_per_cpu_second = 10, .iterations_per_second = 100}, 20 * kOneSecond);
  EXPECT_GT(pace_.taken(), 0.1);
  EXPECT_EQ(pace_.spacing(), 0);
}

TEST_F(PaceTest, KeepsItsLeastDutyThoughNothingIsExchanged) {
  Machine machine{.exchanges_per_cpu_second = 0, .iterations_per_second = 0};
  Run(machine, 20 * kOneSecond);
  EXPECT_GE(pace_.duty(), Pace::kMinDuty);
  EXPECT_LE(pace_.duty(), 0.06);
}

TEST(Pace, HasNoLimitWithAShareOfOne) {
  Pace pace({.share = 1});
  PaceCounters counters;
  for (int64_t now = 1; now < 20 * kOneSecond; now += Pace::kPeriodNs) {
    EXPECT_EQ(pace.RestNs(now, counters.segment_cpu_ns), 0);
    ASSERT_TRUE(pace.Due(now));
    pace.Update(now, counters);
    counters.segment_cpu_ns += Pace::kPeriodNs;
    counters.solvers.waiting_ns += Pace::kPeriodNs;
    counters.iterations += 10;
  }
  EXPECT_EQ(pace.duty(), 1);
}

// One pass of 10 s, such as after a change of view.
TEST_F(PaceTest, RestsAtMostASecondForOneLongPass) {
  Run({}, 5 * kOneSecond);
  ASSERT_LT(pace_.duty(), 0.5);
  counters_.segment_cpu_ns += 10 * kOneSecond;
  now_ += 10 * kOneSecond;
  int64_t rested = 0;
  for (int64_t rest; (rest = pace_.RestNs(now_, counters_.segment_cpu_ns)) > 0; now_ += rest) {
    rested += rest;
    ASSERT_LE(rested, 2 * kOneSecond);
  }
  EXPECT_GE(rested, kOneSecond / 2);
}

}  // namespace
}  // namespace millrace
