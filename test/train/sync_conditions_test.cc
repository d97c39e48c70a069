// When a solver merges its own weights with the shared ones; no threads, no clock.
#include "strategy/sync_conditions.h"

#include <gtest/gtest.h>

#include "examples/extend/furthest_condition.cc"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

SyncConditions Conditions(const std::string& text) {
  caffe::StrategyParameter strategy;
  ParseText(text, "strategy", &strategy, nullptr);
  return SyncConditionList(strategy).Make();
}

// The iterations at which the conditions fire, of `count`, while others complete `others`
// iterations per own one, and each takes `seconds`.
std::vector<int> FiresAt(const SyncConditions& conditions, int count, double others = 0,
                         double seconds = 0) {
  std::vector<int> at;
  int merged = 0;
  for (int i = 1; i <= count; ++i) {
    const int since = i - merged;
    const SyncState state{.iterations = since,
                          .shared_iterations = static_cast<int64_t>(since * (1 + others)),
                          .seconds = since * seconds};
    if (!conditions.Fires(state)) continue;
    conditions.Merging(state);
    merged = i;
    at.push_back(i);
  }
  return at;
}

TEST(SyncConditions, StepsFiresEverySoManyIterations) {
  const auto steps = Conditions("sync_condition { type: 'steps' param { key: 'every' value: 3 } }");
  EXPECT_EQ(FiresAt(steps, 10), (std::vector<int>{3, 6, 9}));
}

TEST(SyncConditions, SecondsFiresWhenTheTimeHasPassed) {
  const auto seconds =
      Conditions("sync_condition { type: 'seconds' param { key: 'every' value: 0.5 } }");
  EXPECT_EQ(FiresAt(seconds, 10, 0, 0.125), (std::vector<int>{4, 8}));
}

TEST(SyncConditions, DistanceComparesTheWayWithTheNormOfTheBase) {
  const auto distance =
      Conditions("sync_condition { type: 'distance' param { key: 'above' value: 0.1 } }");
  const std::vector<float> base = {3, 0, 4};  // norm 5
  const std::vector<float> near = {3, 0.49f, 4}, far = {3, 0.51f, 4}, zero = {0, 0, 0};
  const auto fires = [&](const std::vector<float>& weights, const std::vector<float>& from) {
    return distance.Fires(
        {.iterations = 1, .shared_iterations = 1, .weights = weights, .base = from});
  };
  EXPECT_FALSE(fires(base, base));
  EXPECT_FALSE(fires(near, base));
  EXPECT_TRUE(fires(far, base));
  EXPECT_FALSE(fires(zero, zero));
  EXPECT_TRUE(fires(near, zero));
}

TEST(SyncConditions, AdaptiveChoosesThePeriodInWhichOthersCompleteSoManyIterations) {
  const std::string text =
      "sync_condition { type: 'adaptive' param { key: 'staleness' value: 12 } "
      "param { key: 'most' value: 20 } }";
  EXPECT_EQ(FiresAt(Conditions(text), 20, 3), (std::vector<int>{4, 8, 12, 16, 20}));
  EXPECT_EQ(FiresAt(Conditions(text), 18, 1.5), (std::vector<int>{8, 16}));
  EXPECT_EQ(FiresAt(Conditions(text), 41, 0), (std::vector<int>{20, 40}));  // nobody else
  EXPECT_EQ(FiresAt(Conditions(text), 3, 100), (std::vector<int>{1, 2, 3}));
}

TEST(SyncConditions, AdaptiveFollowsAChangeOfTheOthersSpeedByHalves) {
  const auto adaptive = Conditions(
      "sync_condition { type: 'adaptive' param { key: 'staleness' value: 12 } "
      "param { key: 'most' value: 100 } }");
  adaptive.Merging({.iterations = 4, .shared_iterations = 8});   // 1 per own iteration
  adaptive.Merging({.iterations = 4, .shared_iterations = 24});  // 5; the mean is 3
  EXPECT_FALSE(adaptive.Fires({.iterations = 3, .shared_iterations = 6}));
  EXPECT_TRUE(adaptive.Fires({.iterations = 4, .shared_iterations = 8}));
  // A merge without an iteration, as snapshots make, measures nothing.
  adaptive.Merging({.iterations = 0, .shared_iterations = 0});
  EXPECT_TRUE(adaptive.Fires({.iterations = 4, .shared_iterations = 8}));
}

TEST(SyncConditions, OfSeveralAnyFires) {
  const auto both = Conditions(
      "sync_condition { type: 'steps' param { key: 'every' value: 5 } } "
      "sync_condition { type: 'seconds' param { key: 'every' value: 3 } }");
  EXPECT_EQ(FiresAt(both, 10, 0, 1), (std::vector<int>{3, 6, 9}));
  EXPECT_EQ(FiresAt(both, 10, 0, 0.1), (std::vector<int>{5, 10}));
  EXPECT_FALSE(both.empty());
  EXPECT_TRUE(SyncConditions().empty());
}

TEST(SyncConditions, TheExampleOfTheGuideLooksAtTheWeightThatHasMovedFurthest) {
  const auto furthest = Conditions(
      "sync_condition { type: 'furthest' param { key: 'above' value: 0.5 } "
      "param { key: 'least' value: 2 } }");
  const std::vector<float> base = {1, 2}, near = {1.4f, 1.6f}, far = {1, 1.4f};
  const auto fires = [&](int iterations, const std::vector<float>& weights) {
    return furthest.Fires({.iterations = iterations, .weights = weights, .base = base});
  };
  EXPECT_FALSE(fires(1, far));
  EXPECT_FALSE(fires(2, near));
  EXPECT_TRUE(fires(2, far));
}

TEST(SyncConditions, RefuseWhatTheyDoNotKnow) {
  const auto refusal = [](const std::string& text) { return ErrorOf([&] { Conditions(text); }); };
  EXPECT_EQ(refusal("sync_condition { type: 'often' }"),
            "unknown sync condition 'often', expected one of adaptive, distance, furthest, "
            "seconds, steps");
  EXPECT_EQ(refusal("sync_condition { type: 'steps' param { key: 'every' value: 0 } }"),
            "every is 0, expected a whole number from 1 to 1e+09");
  EXPECT_EQ(refusal("sync_condition { type: 'steps' }"),
            "sync condition steps needs the parameter every, expected a whole number from 1 to "
            "1e+09");
  EXPECT_EQ(refusal("sync_condition { type: 'adaptive' param { key: 'x' value: 0 } }"),
            "sync condition adaptive has no parameter 'x', expected one of staleness, most");
}

}  // namespace
}  // namespace millrace::test
