#include "segment/pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(Pacer, LetsEverythingThroughWithoutARate) {
  Pacer pacer(0, 0);
  EXPECT_FALSE(pacer.limited());
  EXPECT_TRUE(std::isinf(pacer.Available(5)));
  pacer.Spend(1e12);
  EXPECT_TRUE(std::isinf(pacer.Available(5)));
  EXPECT_LE(pacer.ReadyNs(1e9), 5);
}

// A sender that spends all it may, at arbitrary times, reaches the rate.
TEST(Pacer, ComesToItsRateHoweverOftenItIsAsked) {
  Rng rng(test::Seed(), {});
  for (double rate : {1e4, 1.25e7, 1.25e8, 2.5e9}) {
    const double burst = rate * 0.004 + 3000;
    Pacer pacer(rate, burst);
    double taken = 0;
    int64_t now = 17;
    const int64_t end = now + 10 * kSecond;
    while (now < end) {
      for (; pacer.Available(now) >= 1500; taken += 1500) pacer.Spend(1500);
      now = std::max(now + 1 + static_cast<int64_t>(rng.Below(3'000'000)), pacer.ReadyNs(1500));
    }
    EXPECT_NEAR(taken, 10 * rate, 0.005 * 10 * rate + burst) << rate;
  }
}

TEST(Pacer, HoldsNoMoreThanABurstAfterASilence) {
  Pacer pacer(1e6, 5000);
  EXPECT_EQ(pacer.Available(0), 5000);
  EXPECT_EQ(pacer.Available(100 * kSecond), 5000);
}

TEST(Pacer, MakesUpForWhatWasOverdrawn) {
  Pacer pacer(1e6, 5000);
  EXPECT_EQ(pacer.Available(0), 5000);
  pacer.Spend(8000);
  EXPECT_EQ(pacer.Available(0), 0);
  EXPECT_EQ(pacer.ReadyNs(1000), 4'000'000);
  EXPECT_EQ(pacer.Available(2'000'000), 0);
  EXPECT_NEAR(pacer.Available(4'000'000), 1000, 1e-6);
}

TEST(Pacer, RefusesARateThatIsNone) {
  for (double rate : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(Pacer(rate, 1), Error);
  }
}

}  // namespace
}  // namespace millrace
