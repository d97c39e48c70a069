#include "segment/coalescing.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr GatheringLimits kLimits{.least_ns = 100'000, .most_ns = 2 * kMs};

// The wait after `count` iterations, each of which takes so long.
int64_t After(int count, int64_t interval_ns, Gathering* gathering, int64_t* now,
              uint64_t* iterations) {
  int64_t wait = 0;
  for (int i = 0; i < count; ++i) {
    *now += interval_ns;
    wait = gathering->Ns(*now, ++*iterations);
  }
  return wait;
}

TEST(Gathering, WaitsTheLeastUntilThereAreIterations) {
  Gathering gathering(kLimits);
  EXPECT_EQ(gathering.Ns(5 * kMs, 7), kLimits.least_ns);
  EXPECT_EQ(gathering.Ns(500 * kMs, 7), kLimits.least_ns);
}

TEST(Gathering, WaitsASixteenthOfAnIteration) {
  Gathering gathering(kLimits);
  int64_t now = 9 * kMs;
  uint64_t iterations = 0;
  gathering.Ns(now, iterations);
  EXPECT_EQ(After(10, 16 * kMs, &gathering, &now, &iterations), kMs);
  // Looks between iterations, and several at once, change nothing.
  EXPECT_EQ(gathering.Ns(now + 3 * kMs, iterations), kMs);
  now += 48 * kMs;
  iterations += 3;
  EXPECT_EQ(gathering.Ns(now, iterations), kMs);
}

TEST(Gathering, FollowsIterationsThatBecomeFaster) {
  Gathering gathering(kLimits);
  int64_t now = kMs;
  uint64_t iterations = 0;
  gathering.Ns(now, iterations);
  After(10, 24 * kMs, &gathering, &now, &iterations);
  const int64_t faster = After(40, 8 * kMs, &gathering, &now, &iterations);
  EXPECT_NEAR(static_cast<double>(faster), 0.5 * kMs, 0.01 * kMs);
}

TEST(Gathering, KeepsToItsLimits) {
  Gathering gathering(kLimits);
  int64_t now = kMs;
  uint64_t iterations = 0;
  gathering.Ns(now, iterations);
  EXPECT_EQ(After(10, 10'000 * kMs, &gathering, &now, &iterations), kLimits.most_ns);
  EXPECT_EQ(After(200, kMs / 10, &gathering, &now, &iterations), kLimits.least_ns);
}

}  // namespace
}  // namespace millrace
