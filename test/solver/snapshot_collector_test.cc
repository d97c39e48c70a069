#include "solver/snapshot_collector.h"

#include <atomic>
#include <set>
#include <thread>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

// A history of one value, which identifies it.
History Marked(float mark) {
  History history;
  history.Add()->add_data(mark);
  return history;
}

Snapshot At(int64_t iteration) {
  Snapshot start;
  start.iteration = iteration;
  start.model.set_name("at " + std::to_string(iteration));
  return start;
}

// The mark of a solver's history in a snapshot; -1 without a history.
float MarkOf(const Snapshot& snapshot, int solver) {
  return snapshot.histories[solver] ? (*snapshot.histories[solver])[0].data(0) : -1;
}

TEST(SnapshotCollector, GivesASingleSolverItsSnapshotAtOnce) {
  SnapshotCollector collector(1);
  EXPECT_FALSE(collector.Wants(0));
  EXPECT_FALSE(collector.Open(At(100)));
  EXPECT_TRUE(collector.Wants(0));
  const auto snapshot = collector.Deposit(0, Marked(7));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->iteration, 100);
  EXPECT_EQ(snapshot->model.name(), "at 100");
  EXPECT_EQ(MarkOf(*snapshot, 0), 7);
  EXPECT_FALSE(collector.Wants(0));
}

TEST(SnapshotCollector, KeepsThePartOfEachSolverWithItsHistory) {
  const auto part = [](double number) {
    SolverPart made;
    AddNumbers("n", std::vector<double>{number}, &made);
    return made;
  };
  SnapshotCollector collector(2);
  collector.Leave(1, Marked(1), part(11));
  collector.Open(At(100));
  const auto snapshot = collector.Deposit(0, Marked(0), part(10));
  ASSERT_TRUE(snapshot);
  ASSERT_EQ(snapshot->parts.size(), 2u);
  EXPECT_EQ(snapshot->parts[0]->numbers(0).value(0), 10);
  EXPECT_EQ(snapshot->parts[1]->numbers(0).value(0), 11);
}

TEST(SnapshotCollector, GivesTheSnapshotToTheLastOneToDeposit) {
  SnapshotCollector collector(3);
  collector.Open(At(100));
  EXPECT_FALSE(collector.Deposit(1, Marked(1)));
  EXPECT_FALSE(collector.Deposit(0, Marked(0)));
  EXPECT_FALSE(collector.Wants(0));
  EXPECT_TRUE(collector.Wants(2));
  const auto snapshot = collector.Deposit(2, Marked(2));
  ASSERT_TRUE(snapshot);
  for (int solver = 0; solver < 3; ++solver) EXPECT_EQ(MarkOf(*snapshot, solver), solver);
}

TEST(SnapshotCollector, KeepsTheFirstHistoryThatASolverDeposits) {
  SnapshotCollector collector(2);
  collector.Open(At(100));
  collector.Deposit(0, Marked(1));
  collector.Deposit(0, Marked(2));
  EXPECT_EQ(MarkOf(*collector.Deposit(1, Marked(3)), 0), 1);
}

TEST(SnapshotCollector, IgnoresADepositWhileNothingIsOpen) {
  SnapshotCollector collector(1);
  EXPECT_FALSE(collector.Deposit(0, Marked(1)));
  collector.Open(At(100));
  EXPECT_TRUE(collector.Wants(0));
}

TEST(SnapshotCollector, IsCompletedByASolverThatLeaves) {
  SnapshotCollector collector(2);
  collector.Open(At(100));
  collector.Deposit(0, Marked(5));
  const auto snapshot = collector.Leave(1, Marked(6));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(MarkOf(*snapshot, 1), 6);
}

TEST(SnapshotCollector, UsesTheLastHistoryOfSolversThatHaveLeft) {
  SnapshotCollector collector(2);
  EXPECT_FALSE(collector.Leave(1, Marked(6)));
  collector.Open(At(100));
  EXPECT_FALSE(collector.Wants(1));
  const auto snapshot = collector.Deposit(0, Marked(5));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(MarkOf(*snapshot, 1), 6);
}

TEST(SnapshotCollector, CompletesAtOnceWhenEverySolverHasLeft) {
  SnapshotCollector collector(2);
  collector.Leave(0, Marked(1));
  collector.Leave(1, Marked(2));
  const auto snapshot = collector.Open(At(100));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(MarkOf(*snapshot, 0), 1);
  EXPECT_EQ(MarkOf(*snapshot, 1), 2);
}

TEST(SnapshotCollector, HandsOutAnOvertakenSnapshotAsItStands) {
  SnapshotCollector collector(2);
  collector.Open(At(100));
  collector.Deposit(0, Marked(1));
  const auto overtaken = collector.Open(At(200));
  ASSERT_TRUE(overtaken);
  EXPECT_EQ(overtaken->iteration, 100);
  EXPECT_EQ(MarkOf(*overtaken, 0), 1);
  EXPECT_EQ(MarkOf(*overtaken, 1), -1);
  // The new snapshot starts empty.
  EXPECT_FALSE(collector.Deposit(0, Marked(2)));
  const auto later = collector.Deposit(1, Marked(3));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->iteration, 200);
  EXPECT_EQ(MarkOf(*later, 0), 2);
}

TEST(SnapshotCollector, KeepsTheLaterOneOpenWhenTheEarlierClaimArrivesLast) {
  SnapshotCollector collector(2);
  collector.Open(At(200));
  collector.Deposit(1, Marked(1));
  const auto overtaken = collector.Open(At(100));
  ASSERT_TRUE(overtaken);
  EXPECT_EQ(overtaken->iteration, 100);
  const auto later = collector.Deposit(0, Marked(2));
  ASSERT_TRUE(later);
  EXPECT_EQ(later->iteration, 200);
  EXPECT_EQ(MarkOf(*later, 1), 1);
}

TEST(SnapshotCollector, CollectsAnIterationOnceHoweverOftenItIsAskedFor) {
  SnapshotCollector collector(2);
  EXPECT_FALSE(collector.Open(At(100)));
  collector.Deposit(0, Marked(1));
  EXPECT_FALSE(collector.Open(At(100)));
  const auto snapshot = collector.Deposit(1, Marked(2));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(MarkOf(*snapshot, 0), 1);
  EXPECT_FALSE(collector.Open(At(100)));
  EXPECT_FALSE(collector.Wants(0));
}

// Solvers claim iterations from one clock and reach snapshot boundaries at different times.
TEST(SnapshotCollector, LosesNoSnapshotWhenThreadsRace) {
  constexpr int kSolvers = 4, kIterations = 2000, kEvery = 50;
  SnapshotCollector collector(kSolvers);
  std::atomic<int> clock{0};
  std::mutex mutex;
  std::set<int64_t> written;
  const auto take = [&](std::optional<Snapshot> snapshot) {
    if (!snapshot) return;
    std::lock_guard lock(mutex);
    EXPECT_EQ(snapshot->model.name(), "at " + std::to_string(snapshot->iteration));
    EXPECT_TRUE(written.insert(snapshot->iteration).second) << snapshot->iteration;
  };
  std::vector<std::thread> solvers;
  for (int solver = 0; solver < kSolvers; ++solver) {
    solvers.emplace_back([&, solver] {
      Rng rng(test::Seed(), {1, static_cast<uint64_t>(solver)});
      for (;;) {
        const int claimed = ++clock;
        if (claimed > kIterations) break;
        for (uint64_t wait = rng.Below(3); wait > 0; --wait) std::this_thread::yield();
        if (claimed % kEvery == 0) take(collector.Open(At(claimed)));
        if (collector.Wants(solver)) take(collector.Deposit(solver, Marked(claimed)));
      }
      take(collector.Leave(solver, Marked(0)));
    });
  }
  for (std::thread& solver : solvers) solver.join();
  for (int i = kEvery; i <= kIterations; i += kEvery) EXPECT_EQ(written.count(i), 1u) << i;
  const auto last = collector.Open(At(kIterations + 1));
  ASSERT_TRUE(last);
  for (int solver = 0; solver < kSolvers; ++solver) EXPECT_EQ(MarkOf(*last, solver), 0);
}

}  // namespace
}  // namespace millrace
