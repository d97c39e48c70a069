#include "metrics/axis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

std::vector<std::string> Labels(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Axis::Tick& tick : axis.ticks()) labels.push_back(tick.label);
  return labels;
}
using Strings = std::vector<std::string>;

TEST(Axis, PutsRoundNumbersBetweenItsEnds) {
  EXPECT_EQ(Labels(Axis::Linear(0, 10000)),
            (Strings{"0", "2,000", "4,000", "6,000", "8,000", "10,000"}));
  EXPECT_EQ(Labels(Axis::Linear(0, 0.3)),
            (Strings{"0.00", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"}));
  EXPECT_EQ(Labels(Axis::Linear(96.6, 99.2)), (Strings{"97.0", "97.5", "98.0", "98.5", "99.0"}));
  EXPECT_EQ(Labels(Axis::Linear(-1, 1)), (Strings{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
}

TEST(Axis, PutsPowersOfTenOnALongLogarithm) {
  EXPECT_EQ(Labels(Axis::Logarithmic(0.0008, 3)), (Strings{"0.001", "0.01", "0.1", "1"}));
  EXPECT_EQ(Labels(Axis::Logarithmic(1e-6, 1e-4)), (Strings{"1e-06", "1e-05", "0.0001"}));
}

TEST(Axis, PutsMoreNumbersOnAShortLogarithm) {
  EXPECT_EQ(Labels(Axis::Logarithmic(0.04, 1.2)), (Strings{"0.05", "0.1", "0.2", "0.5", "1"}));
  EXPECT_EQ(Labels(Axis::Logarithmic(2.28, 2.32)),
            (Strings{"2.28", "2.29", "2.30", "2.31", "2.32"}));
}

TEST(Axis, SpacesDecadesEvenly) {
  const Axis axis = Axis::Logarithmic(0.01, 1);
  EXPECT_NEAR(axis.Fraction(0.01), 0, 1e-12);
  EXPECT_NEAR(axis.Fraction(0.1), 0.5, 1e-12);
  EXPECT_NEAR(axis.Fraction(1), 1, 1e-12);
  EXPECT_LT(axis.Fraction(0), -1000);
  EXPECT_LT(axis.Fraction(-1), -1000);
}

TEST(Axis, WidensEndsThatAreEqual) {
  for (double value : {0.0, 5.0, -3.0, 1e-12, 1e12}) {
    const Axis axis = Axis::Linear(value, value);
    EXPECT_LT(axis.low(), value);
    EXPECT_GT(axis.high(), value);
    EXPECT_NEAR(axis.Fraction(value), 0.5, 1e-6);
  }
  EXPECT_NEAR(Axis::Logarithmic(2, 2).Fraction(2), 0.5, 0.05);
}

TEST(Axis, HasAFewDistinctTicksInsideWhateverTheRange) {
  Rng rng(test::Seed(), {1});
  for (int round = 0; round < 2000; ++round) {
    const bool logarithmic = rng.Below(2);
    double low = std::pow(10, 30 * rng.Uniform() - 15), high = low;
    if (logarithmic) {
      high *= std::pow(10, 12 * rng.Uniform() + 0.01);
    } else {
      high += std::pow(10, 30 * rng.Uniform() - 15) + 1e-6 * low;
    }
    const Axis axis = logarithmic ? Axis::Logarithmic(low, high) : Axis::Linear(low, high);
    ASSERT_GE(axis.ticks().size(), 2u) << low << " " << high << " " << logarithmic;
    ASSERT_LE(axis.ticks().size(), 14u) << low << " " << high << " " << logarithmic;
    double before = -1;
    for (const Axis::Tick& tick : axis.ticks()) {
      const double at = axis.Fraction(tick.value);
      ASSERT_GE(at, -1e-6);
      ASSERT_LE(at, 1 + 1e-6);
      ASSERT_GT(at, before);
      before = at;
    }
  }
}

TEST(Axis, RisesWithTheValue) {
  Rng rng(test::Seed(), {2});
  for (const Axis& axis : {Axis::Linear(-3, 8), Axis::Logarithmic(1e-3, 50)}) {
    for (int i = 0; i < 1000; ++i) {
      const double a = 60 * rng.Uniform() + 1e-9, b = 60 * rng.Uniform() + 1e-9;
      if (a == b) continue;
      ASSERT_EQ(a < b, axis.Fraction(a) < axis.Fraction(b)) << a << " " << b;
    }
  }
}

TEST(NumberText, GroupsThousandsAndKeepsTinyNumbersShort) {
  EXPECT_EQ(NumberText(1234567, 0), "1,234,567");
  EXPECT_EQ(NumberText(-1000, 0), "-1,000");
  EXPECT_EQ(NumberText(999, 0), "999");
  EXPECT_EQ(NumberText(0, 2), "0.00");
  EXPECT_EQ(NumberText(3e-7, 7), "3e-07");
  EXPECT_EQ(NumberText(4e20, 0), "4e+20");
}

TEST(DurationText, UsesTheUnitsThatMatter) {
  EXPECT_EQ(DurationText(0), "0.0 s");
  EXPECT_EQ(DurationText(48.24), "48.2 s");
  EXPECT_EQ(DurationText(59.97), "1 min 00 s");
  EXPECT_EQ(DurationText(151), "2 min 31 s");
  EXPECT_EQ(DurationText(3 * 3600 + 5 * 60 + 1), "3 h 05 min");
  EXPECT_EQ(DurationText(2 * 86400 + 4 * 3600), "2 d 04 h");
  EXPECT_EQ(DurationText(std::nan("")), "?");
}

TEST(UnitFor, SuitsTheLengthOfTheRun) {
  EXPECT_STREQ(UnitFor(200).name, "s");
  EXPECT_STREQ(UnitFor(2000).name, "min");
  EXPECT_STREQ(UnitFor(40000).name, "h");
  EXPECT_STREQ(UnitFor(1e6).name, "days");
}

}  // namespace
}  // namespace millrace
