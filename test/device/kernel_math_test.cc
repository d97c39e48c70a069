#include "device/kernel_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The distance from the true value in units in the last place of its float. NaN where only one is
// NaN or infinite.
double Ulps(float actual, double expected) {
  const auto rounded = static_cast<float>(expected);
  if (std::isnan(rounded) && std::isnan(actual)) return 0;
  if (std::isinf(rounded) || std::isinf(actual)) return rounded == actual ? 0 : kNan;
  const float magnitude = std::abs(rounded);
  const double unit = double{std::nextafter(magnitude, kInfinity)} - double{magnitude};
  return std::abs(double{actual} - expected) / unit;
}

// Calls the functions for floats of every sign and exponent, and for special values.
template <typename Actual, typename Expected>
void ExpectWithin(double ulps, Actual actual, Expected expected, double above = -HUGE_VAL) {
  std::vector<float> values = {0,
                               -0.0f,
                               1,
                               -1,
                               kInfinity,
                               -kInfinity,
                               kNan,
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::max()};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 5347) {
    const auto narrow = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &narrow, sizeof(value));
    values.push_back(value);
  }
  for (const float x : values) {
    if (x <= above) continue;
    ASSERT_LE(Ulps(actual(x), expected(double{x})), ulps) << x;
  }
}

TEST(KernelMath, ExpIsExactToTheLastPlaceForEveryFloat) {
  ExpectWithin(
      1.1, [](float x) { return kernel_math::Exp(x); }, [](double x) { return std::exp(x); });
}

TEST(KernelMath, LogIsExactToTheLastPlaceForEveryFloat) {
  ExpectWithin(
      1.1, [](float x) { return kernel_math::Log(x); }, [](double x) { return std::log(x); });
}

TEST(KernelMath, Log1pKeepsItsPrecisionNearZero) {
  ExpectWithin(
      2.5, [](float x) { return kernel_math::Log1p(x); }, [](double x) { return std::log1p(x); },
      -1);
}

TEST(KernelMath, TanhKeepsItsPrecisionNearZero) {
  ExpectWithin(
      1.5, [](float x) { return kernel_math::Tanh(x); }, [](double x) { return std::tanh(x); });
}

TEST(KernelMath, SelectTakesTheBitsOfOneSide) {
  EXPECT_EQ(kernel_math::Select(true, 1, kNan), 1);
  EXPECT_EQ(kernel_math::Select(false, kNan, -2), -2);
  EXPECT_TRUE(std::isnan(kernel_math::Select(true, kNan, 3)));
}

}  // namespace
}  // namespace millrace
