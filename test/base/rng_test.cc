#include "base/rng.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "test/support/support.h"

namespace millrace::test {
namespace {

// Test vectors published in Random123, the authors' library.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ(Philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ULL, ~0ULL, ~0ULL),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, AStreamIsAFunctionOfItsNames) {
  Rng a(Seed(), {1, 2}), b(Seed(), {1, 2});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.Next(), b.Next());
}

TEST(Rng, OtherNamesGiveOtherStreams) {
  std::set<uint64_t> first;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, Seed() + 2}) {
    for (uint64_t x = 0; x < 20; ++x) {
      for (uint64_t y = 0; y < 20; ++y) first.insert(Rng(seed, {x, y}).Next64());
      first.insert(Rng(seed, {x}).Next64());
    }
  }
  EXPECT_EQ(first.size(), 3u * 20 * 21);
}

TEST(Rng, UniformNumbersFillTheUnitInterval) {
  Rng rng(Seed(), {});
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = rng.Uniform();
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    sum += x;
    squares += x * x;
  }
  // The tolerance is six standard deviations of the means.
  EXPECT_NEAR(sum / kCount, 1.0 / 2, 6 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 6 * std::sqrt(4.0 / 45 / kCount));
}

TEST(Rng, GaussianNumbersHaveTheNormalMoments) {
  Rng rng(Seed(), {});
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = rng.Gaussian();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 6 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 6 * std::sqrt(2.0 / kCount));
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  Rng rng(Seed(), {});
  std::vector<int> hits(7);
  for (int i = 0; i < 70000; ++i) ++hits.at(rng.Below(7));
  for (int count : hits) EXPECT_NEAR(count, 10000, 6 * std::sqrt(70000.0 * 6 / 49));
}

// Otherwise a failure could not be repeated.
TEST(SeedOfTests, IsFixedUnlessAnotherIsAskedFor) {
  const char* const given = std::getenv("MILLRACE_TEST_SEED");
  const std::string kept = given ? given : "";
  unsetenv("MILLRACE_TEST_SEED");
  EXPECT_EQ(ChooseSeed(nullptr), 1u);
  EXPECT_EQ(ChooseSeed("7"), 7u);
  std::set<uint64_t> drawn;
  for (int i = 0; i < 4; ++i) drawn.insert(ChooseSeed("random"));
  EXPECT_GT(drawn.size(), 1u);
  setenv("MILLRACE_TEST_SEED", "8", 1);
  EXPECT_EQ(ChooseSeed(nullptr), 8u);
  EXPECT_EQ(ChooseSeed("7"), 7u);
  EXPECT_EQ(ErrorOf([] { ChooseSeed("x"); }), "seed 'x': expected a number or 'random'");
  if (given) {
    setenv("MILLRACE_TEST_SEED", kept.c_str(), 1);
  } else {
    unsetenv("MILLRACE_TEST_SEED");
  }
}

}  // namespace
}  // namespace millrace::test
