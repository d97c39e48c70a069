#include "nn/blob_memory.h"

#include <algorithm>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// The most bytes in use at one step: no plan needs less.
size_t MaxInUse(const std::vector<ArenaItem>& items) {
  size_t most = 0;
  for (const ArenaItem& at : items) {
    size_t bytes = 0;
    for (const ArenaItem& item : items) {
      if (item.first <= at.first && at.first <= item.last) bytes += item.bytes;
    }
    most = std::max(most, bytes);
  }
  return most;
}

TEST(ArenaPlan, GivesAChainOfEqualArraysTwoPlaces) {
  std::vector<ArenaItem> items;
  for (size_t step = 0; step < 50; ++step) items.push_back({1024, step, step + 1});
  EXPECT_EQ(PlanArena(items).bytes, 2048u);
}

TEST(ArenaPlan, HasNoBytesForNothing) {
  EXPECT_EQ(PlanArena({}).bytes, 0u);
  const ArenaPlan empty = PlanArena({{0, 0, 3}, {0, 1, 2}});
  EXPECT_EQ(empty.bytes, 0u);
}

TEST(ArenaPlan, FillsAGapWithAnArrayThatFits) {
  // The second frees its place at step 2 while the first and third stay.
  const ArenaPlan plan =
      PlanArena({{1024, 0, 9}, {768, 0, 1}, {512, 0, 9}, {768, 2, 9}, {256, 2, 9}});
  EXPECT_EQ(plan.bytes, 1024u + 768 + 512 + 256);
  EXPECT_EQ(plan.offsets[1], plan.offsets[3]);
}

TEST(ArenaPlan, KeepsArraysApartThatAreInUseTogether) {
  Rng random(Seed(), {0});
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaItem> items(random.Below(40));
    for (ArenaItem& item : items) {
      item.bytes = random.Below(5000);
      item.first = random.Below(30);
      item.last = item.first + random.Below(6);
    }
    const ArenaPlan plan = PlanArena(items);
    size_t sum = 0, end = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kArenaAlignment, 0u);
      sum += items[i].bytes + kArenaAlignment;
      end = std::max(end, plan.offsets[i] + items[i].bytes);
      for (size_t j = 0; j < i; ++j) {
        if (items[j].last < items[i].first || items[i].last < items[j].first) continue;
        EXPECT_TRUE(plan.offsets[i] + items[i].bytes <= plan.offsets[j] ||
                    plan.offsets[j] + items[j].bytes <= plan.offsets[i])
            << i << " and " << j;
      }
    }
    EXPECT_LE(end, plan.bytes);
    EXPECT_LE(plan.bytes, sum);
    EXPECT_GE(plan.bytes, MaxInUse(items));
  }
}

}  // namespace
}  // namespace millrace::test
