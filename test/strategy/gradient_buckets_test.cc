#include "strategy/allreduce.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace millrace::test {
namespace {

using Spans = std::vector<std::pair<int64_t, int64_t>>;

Spans Completed(GradientBuckets* buckets, const std::vector<int64_t>& begins) {
  Spans spans;
  for (const int64_t begin : begins) {
    buckets->Complete(begin,
                      [&](int64_t first, int64_t count) { spans.emplace_back(first, count); });
  }
  return spans;
}

TEST(GradientBuckets, GoFromTheEndOfTheArrayToItsStart) {
  GradientBuckets buckets(10, 4);
  EXPECT_EQ(Completed(&buckets, {0}), (Spans{{6, 4}, {2, 4}, {0, 2}}));
}

TEST(GradientBuckets, AreReadyWhenAllOfTheirElementsAre) {
  GradientBuckets buckets(10, 4);
  EXPECT_EQ(Completed(&buckets, {10, 8, 7}), Spans{});
  EXPECT_EQ(Completed(&buckets, {6}), (Spans{{6, 4}}));
  EXPECT_EQ(Completed(&buckets, {6, 3}), Spans{});
  EXPECT_EQ(Completed(&buckets, {1}), (Spans{{2, 4}}));
  EXPECT_EQ(Completed(&buckets, {0, 0}), (Spans{{0, 2}}));
}

TEST(GradientBuckets, DoNotDependOnTheStepsInWhichElementsAreComplete) {
  GradientBuckets buckets(100, 7);
  const Spans whole = Completed(&buckets, {0});
  for (int64_t step = 1; step < 30; ++step) {
    buckets.Restart();
    std::vector<int64_t> begins;
    for (int64_t begin = 100; begin > 0; begin -= step) begins.push_back(begin);
    begins.push_back(0);
    EXPECT_EQ(Completed(&buckets, begins), whole) << step;
  }
}

TEST(GradientBuckets, OfAnEmptyArrayAreNone) {
  GradientBuckets buckets(0, 4);
  EXPECT_EQ(Completed(&buckets, {0}), Spans{});
}

}  // namespace
}  // namespace millrace::test
