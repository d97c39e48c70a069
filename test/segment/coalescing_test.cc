#include "segment/segment_thread.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr CoalescingLimits kLimits{.min_ns = 100'000, .max_ns = 2 * kMs};

// The wait after `count` iterations at intervals of `interval_ns`.
int64_t After(int count, int64_t interval_ns, Coalescing* coalescing, int64_t* now,
              uint64_t* iterations) {
  int64_t wait = 0;
  for (int i = 0; i < count; ++i) {
    *now += interval_ns;
    wait = coalescing->Ns(*now, ++*iterations);
  }
  return wait;
}

TEST(Coalescing, WaitsTheLeastUntilThereAreIterations) {
  Coalescing coalescing(kLimits);
  EXPECT_EQ(coalescing.Ns(5 * kMs, 7), kLimits.min_ns);
  EXPECT_EQ(coalescing.Ns(500 * kMs, 7), kLimits.min_ns);
}

TEST(Coalescing, WaitsASixteenthOfAnIteration) {
  Coalescing coalescing(kLimits);
  int64_t now = 9 * kMs;
  uint64_t iterations = 0;
  coalescing.Ns(now, iterations);
  EXPECT_EQ(After(10, 16 * kMs, &coalescing, &now, &iterations), kMs);
  // Calls between iterations, and several iterations per call, do not change the result.
  EXPECT_EQ(coalescing.Ns(now + 3 * kMs, iterations), kMs);
  now += 48 * kMs;
  iterations += 3;
  EXPECT_EQ(coalescing.Ns(now, iterations), kMs);
}

TEST(Coalescing, FollowsIterationsThatBecomeFaster) {
  Coalescing coalescing(kLimits);
  int64_t now = kMs;
  uint64_t iterations = 0;
  coalescing.Ns(now, iterations);
  After(10, 24 * kMs, &coalescing, &now, &iterations);
  const int64_t faster = After(40, 8 * kMs, &coalescing, &now, &iterations);
  EXPECT_NEAR(static_cast<double>(faster), 0.5 * kMs, 0.01 * kMs);
}

TEST(Coalescing, KeepsToItsLimits) {
  Coalescing coalescing(kLimits);
  int64_t now = kMs;
  uint64_t iterations = 0;
  coalescing.Ns(now, iterations);
  EXPECT_EQ(After(10, 10'000 * kMs, &coalescing, &now, &iterations), kLimits.max_ns);
  EXPECT_EQ(After(200, kMs / 10, &coalescing, &now, &iterations), kLimits.min_ns);
}

}  // namespace
}  // namespace millrace
