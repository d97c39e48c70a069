#include "weights/iteration_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "test/support/support.h"

namespace millrace {
namespace {

TEST(IterationClock, HandsOutEachIterationOnceToManyThreads) {
  constexpr int kThreads = 8;
  constexpr int64_t kLimit = 20000;
  IterationClock clock;
  std::vector<std::atomic<int>> times(kLimit);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const int slot = clock.RegisterSolver();
      while (auto iteration = clock.Claim(kLimit)) {
        ++times[static_cast<size_t>(*iteration)];
        clock.Done(slot);
      }
      clock.ReleaseSolver(slot);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t i = 0; i < kLimit; ++i) ASSERT_EQ(times[static_cast<size_t>(i)], 1) << i;
  EXPECT_EQ(clock.global(), kLimit);
  EXPECT_EQ(clock.claimed(), kLimit);
}

TEST(IterationClock, HandsOutNothingAtItsLimitAndGoesOnWhenTheLimitIsRaised) {
  IterationClock clock;
  EXPECT_EQ(clock.Claim(1), 0);
  EXPECT_EQ(clock.Claim(1), std::nullopt);
  EXPECT_EQ(clock.Claim(0), std::nullopt);
  EXPECT_EQ(clock.Claim(2), 1);
}

TEST(IterationClock, CountsAsGlobalOnlyWhatIsDone) {
  IterationClock clock;
  const int slot = clock.RegisterSolver();
  clock.Claim(10);
  clock.Claim(10);
  EXPECT_EQ(clock.claimed(), 2);
  EXPECT_EQ(clock.global(), 0);
  clock.Done(slot);
  EXPECT_EQ(clock.global(), 1);
}

TEST(IterationClock, TellsWhatSolversHaveNotMerged) {
  IterationClock clock;
  const int slot = clock.RegisterSolver(), other = clock.RegisterSolver();
  clock.SetUnmerged(slot, 2);
  clock.SetUnmerged(other, 3);
  EXPECT_EQ(clock.unmerged(), 5);
  clock.SetUnmerged(slot, 0);
  EXPECT_EQ(clock.unmerged(), 3);
  clock.ReleaseSolver(other);
  EXPECT_EQ(clock.unmerged(), 0);
}

TEST(IterationClock, StartsAtTheIterationOfASnapshot) {
  IterationClock clock;
  const int slot = clock.RegisterSolver();
  clock.Claim(10);
  clock.Done(slot);
  clock.StartAt(5000);
  EXPECT_EQ(clock.start(), 5000);
  EXPECT_EQ(clock.global(), 5000);
  EXPECT_EQ(clock.Claim(5002), 5000);
  clock.Done(slot);
  EXPECT_EQ(clock.global(), 5001);
}

// Common schedule of all machines: each number is used exactly once, here or on another machine.
TEST(IterationClock, LeavesOutTheNumbersThatOtherMachinesHaveUsed) {
  IterationClock clock;
  const int slot = clock.RegisterSolver();
  clock.StartAt(100);
  EXPECT_EQ(clock.Claim(200), 100);
  EXPECT_EQ(clock.TakeRemote(40), 101);
  EXPECT_EQ(clock.Claim(200), 141);
  clock.Done(slot);
  EXPECT_EQ(clock.global(), 141);
  EXPECT_EQ(clock.own(), 1);
  EXPECT_EQ(clock.TakeRemote(0), 142);
  EXPECT_EQ(clock.TakeRemote(70), 142);
  EXPECT_EQ(clock.Claim(200), std::nullopt);
  clock.StartAt(7);
  EXPECT_EQ(clock.global(), 7);
}

TEST(IterationClock, DividesTheNumbersBetweenManyThreadsAndOtherMachines) {
  constexpr int64_t kLimit = 20000;
  IterationClock clock;
  std::vector<std::atomic<int>> times(kLimit);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (auto iteration = clock.Claim(kLimit)) ++times[static_cast<size_t>(*iteration)];
    });
  }
  while (clock.claimed() < kLimit) {
    const int64_t first = clock.TakeRemote(7);
    for (int64_t i = first; i < std::min(first + 7, kLimit); ++i) ++times[static_cast<size_t>(i)];
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t i = 0; i < kLimit; ++i) ASSERT_EQ(times[static_cast<size_t>(i)], 1) << i;
}

TEST(IterationClock, KeepsWhatAReleasedSlotHasCounted) {
  IterationClock clock;
  const int first = clock.RegisterSolver();
  clock.Done(first);
  clock.ReleaseSolver(first);
  const int second = clock.RegisterSolver();
  EXPECT_EQ(second, first);
  clock.Done(second);
  EXPECT_EQ(clock.global(), 2);
}

TEST(IterationClock, TellsHowManySolversThereAre) {
  IterationClock clock;
  EXPECT_EQ(clock.solvers(), 0);
  const int one = clock.RegisterSolver(), other = clock.RegisterSolver();
  EXPECT_EQ(clock.solvers(), 2);
  clock.ReleaseSolver(one);
  EXPECT_EQ(clock.solvers(), 1);
  clock.ReleaseSolver(other);
  EXPECT_EQ(clock.solvers(), 0);
}

TEST(IterationClock, GivesEverySolverItsOwnSlotAndRefusesOneTooMany) {
  IterationClock clock;
  std::set<int> slots;
  for (int i = 0; i < kMaxSolvers; ++i) slots.insert(clock.RegisterSolver());
  EXPECT_EQ(slots.size(), static_cast<size_t>(kMaxSolvers));
  EXPECT_CONTAINS(test::ErrorOf([&] { clock.RegisterSolver(); }), "all 256 solver slots");
}

}  // namespace
}  // namespace millrace
