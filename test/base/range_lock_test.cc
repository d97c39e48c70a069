#include "base/threads/range_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "test/support/support.h"

namespace millrace {
namespace {

constexpr int64_t kFloats = 1 << 20;

// The lock uses only addresses and never accesses the array.
const float* Array() {
  static const std::vector<float> array(kFloats);
  return array.data();
}

TEST(RangeLock, KeepsAnExclusiveHolderOutOfASharedRange) {
  RangeLock lock(Array());
  RangeLock::Shared solver(&lock);
  RangeLock::Exclusive exchange(&lock);
  solver.Lock(Array() + 4096, 4096);
  EXPECT_FALSE(exchange.TryLock(Array() + 5000, 10));
  EXPECT_FALSE(exchange.TryLock(Array(), 4097));
  EXPECT_FALSE(exchange.TryLock(Array() + 8191, 1));
  EXPECT_FALSE(exchange.TryLock(Array(), kFloats));
  // A failed TryLock holds nothing.
  RangeLock::Shared other(&lock);
  EXPECT_TRUE(other.TryLock(Array(), kFloats));
  other.Unlock();
  EXPECT_TRUE(exchange.TryLock(Array(), 4096));
  exchange.Unlock();
  EXPECT_TRUE(exchange.TryLock(Array() + 8192, 1));
  exchange.Unlock();
  solver.Unlock();
  EXPECT_TRUE(exchange.TryLock(Array(), kFloats));
}

TEST(RangeLock, KeepsASharedHolderOutOfAnExclusiveRange) {
  RangeLock lock(Array());
  RangeLock::Shared solver(&lock);
  RangeLock::Exclusive exchange(&lock);
  ASSERT_TRUE(exchange.TryLock(Array() + 350, 350));
  EXPECT_FALSE(solver.TryLock(Array() + 300, 60));
  EXPECT_FALSE(solver.TryLock(Array() + 690, 4096));
  // The failed TryLock has been withdrawn: it does not block a second exchange.
  RangeLock::Exclusive second(&lock);
  EXPECT_TRUE(second.TryLock(Array() + 1024, 4096));
  second.Unlock();
  EXPECT_TRUE(solver.TryLock(Array(), 350 / 16 * 16));
  solver.Unlock();
  exchange.Unlock();
  EXPECT_TRUE(solver.TryLock(Array() + 300, 60));
  solver.Unlock();
}

TEST(RangeLock, CountsLinesOfMemoryThatAreSharedAsOverlapping) {
  RangeLock lock(Array());
  RangeLock::Shared solver(&lock);
  RangeLock::Exclusive exchange(&lock);
  ASSERT_TRUE(exchange.TryLock(Array() + 16, 1));
  EXPECT_FALSE(solver.TryLock(Array() + 31, 1));
  EXPECT_TRUE(solver.TryLock(Array() + 32, 1));
  solver.Unlock();
  EXPECT_TRUE(solver.TryLock(Array() + 15, 1));
  solver.Unlock();
}

TEST(RangeLock, LetsSharedHoldersOverlap) {
  RangeLock lock(Array());
  RangeLock::Shared one(&lock), two(&lock);
  EXPECT_TRUE(one.TryLock(Array(), 4096));
  EXPECT_TRUE(two.TryLock(Array() + 100, 4096));
  one.Unlock();
  RangeLock::Exclusive exchange(&lock);
  EXPECT_FALSE(exchange.TryLock(Array() + 100, 1));  // the other holder has not left
}

TEST(RangeLock, LetsOneOfTwoExclusiveHoldersInWhicheverComesFirst) {
  RangeLock lock(Array());
  RangeLock::Exclusive low(&lock), high(&lock);
  for (auto [first, second] : {std::pair(&low, &high), std::pair(&high, &low)}) {
    ASSERT_TRUE(first->TryLock(Array(), 700));
    EXPECT_FALSE(second->TryLock(Array() + 350, 700));
    EXPECT_TRUE(second->TryLock(Array() + 704, 700));
    second->Unlock();
    first->Unlock();
    EXPECT_TRUE(second->TryLock(Array() + 350, 700));
    second->Unlock();
  }
}

TEST(RangeLock, WaitsUntilTheExclusiveHolderHasLeft) {
  RangeLock lock(Array());
  RangeLock::Exclusive exchange(&lock);
  ASSERT_TRUE(exchange.TryLock(Array(), 350));
  int value = 1;  // protected only by the lock, so that the thread sanitizer checks it
  std::thread solver([&] {
    RangeLock::Shared holder(&lock);
    holder.Lock(Array() + 100, 4096);
    value *= 3;
    holder.Unlock();
  });
  value += 1;
  exchange.Unlock();
  solver.join();
  EXPECT_EQ(value, 6);
}

// Plain integers, each written by the holder of its range: every solver writes its own numbers, the
// exchanges write all of them.
TEST(RangeLock, LosesNothingBetweenThreads) {
  constexpr int kNumbers = 64, kRounds = 20000;
  RangeLock lock(Array());
  std::vector<int64_t> numbers(kNumbers);
  std::atomic<int64_t> exchanged{0};
  std::vector<std::thread> threads;
  for (int solver = 0; solver < 2; ++solver) {
    threads.emplace_back([&, solver] {
      RangeLock::Shared holder(&lock);
      for (int round = 0; round < kRounds; ++round) {
        const int number = (7 * round % (kNumbers / 2)) * 2 + solver;
        holder.Lock(Array() + 16 * number, 16);
        ++numbers[number];
        holder.Unlock();
      }
    });
  }
  for (int exchange = 0; exchange < 2; ++exchange) {
    threads.emplace_back([&] {
      RangeLock::Exclusive holder(&lock);
      for (int round = 0; round < kRounds; ++round) {
        const int number = 5 * round % (kNumbers - 2);
        if (!holder.TryLock(Array() + 16 * number, 33)) continue;
        for (int i = 0; i < 3; ++i) ++numbers[number + i];
        holder.Unlock();
        exchanged += 3;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t sum = 0;
  for (const int64_t number : numbers) sum += number;
  EXPECT_EQ(sum, 2 * kRounds + exchanged);
  EXPECT_GT(exchanged, 0);
}

TEST(RangeLock, ClearsWhatADeadProcessHeldAndNothingElse) {
  constexpr uint32_t kSpare = 40;
  const auto table = std::make_unique<RangeLockTable>();
  std::set<uint32_t> dead;
  const auto is_alive = [&](uint32_t owner) { return !dead.contains(owner); };
  RangeLock own(table.get(), Array(), 1, is_alive), other(table.get(), Array(), 2, is_alive);
  RangeLock::Shared killed_solver(&other), living_solver(&other);
  killed_solver.Lock(Array(), 4096);
  RangeLock::Exclusive exchange(&own);
  EXPECT_FALSE(exchange.TryLock(Array(), 350));
  dead = {2};
  EXPECT_TRUE(exchange.TryLock(Array(), 350));
  exchange.Unlock();

  dead = {};
  RangeLock::Exclusive killed_exchange(&other);
  ASSERT_TRUE(killed_exchange.TryLock(Array() + 350, 350));
  RangeLock::Shared solver(&own);
  EXPECT_FALSE(solver.TryLock(Array(), 4096));
  dead = {2};
  solver.Lock(Array(), 4096);  // would otherwise block forever
  // A slot without owner, as in a damaged file, blocks no one.
  table->exclusive[kSpare].range = uint64_t{1 << 20};
  table->exclusive_end = kSpare + 1;
  solver.Unlock();
  solver.Lock(Array(), 4096);
  // The liveness check is not applied to the process itself.
  dead = {1};
  EXPECT_FALSE(exchange.TryLock(Array(), 350));
}

TEST(RangeLock, GivesPlacesBackAndSaysWhenThereAreNone) {
  const auto table = std::make_unique<RangeLockTable>();
  RangeLock lock(table.get(), Array(), 1, nullptr), other(table.get(), Array(), 2, nullptr);
  std::vector<std::unique_ptr<RangeLock::Exclusive>> all;
  const auto take = [&](RangeLock* of) {
    all.push_back(std::make_unique<RangeLock::Exclusive>(of));
  };
  for (int i = 0; i < RangeLockTable::kExclusive; ++i) take(i % 2 ? &lock : &other);
  const std::string error = test::ErrorOf([&] { take(&lock); });
  EXPECT_CONTAINS(error, "all 64 places for exchanges of the weights are taken");
  ASSERT_TRUE(all[1]->TryLock(Array(), 16));
  ASSERT_TRUE(all[2]->TryLock(Array() + 16, 16));
  ReleaseRangesOf(table.get(), 1);
  EXPECT_EQ(table->exclusive[1].range, 0u);
  EXPECT_NE(table->exclusive[2].range, 0u);
  EXPECT_EQ(table->exclusive[1].owner, 0u);
  EXPECT_EQ(table->exclusive[2].owner, 2u);
  take(&lock);
}

}  // namespace
}  // namespace millrace
