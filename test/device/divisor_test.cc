// Divisors give the quotients and remainders of the processor's division.
#include "device/divisor.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// Numbers near powers of 2, and some between them.
std::vector<int64_t> Values(int64_t most) {
  std::vector<int64_t> values;
  Rng rng(Seed(), {});
  for (int64_t power = 1; power <= most; power *= 2) {
    for (const int64_t value :
         {power - 1, power, power + 1, power + static_cast<int64_t>(rng.Below(power))}) {
      if (value <= most) values.push_back(value);
    }
  }
  values.push_back(most);
  return values;
}

template <typename Index>
void ExpectDivides(const std::vector<int64_t>& values, int64_t by) {
  const Divisor divisor(by);
  for (const int64_t value : values) {
    const auto index = static_cast<Index>(value);
    ASSERT_EQ(index / divisor, value / by) << value << " by " << by;
    ASSERT_EQ(index % divisor, value % by) << value << " by " << by;
    ASSERT_EQ(index / divisor * divisor, value / by * by) << value << " by " << by;
  }
}

TEST(Divisor, DividesIndicesOf32Bits) {
  const std::vector<int64_t> values = Values(INT32_MAX);
  for (const int64_t by : values) {
    if (by > 0) ExpectDivides<int32_t>(values, by);
  }
}

TEST(Divisor, DividesIndicesOf64Bits) {
  const std::vector<int64_t> values = Values(int64_t{1} << 40);
  for (const int64_t by : values) {
    if (by > 0) ExpectDivides<int64_t>(values, by);
  }
}

TEST(Divisor, MayBeLargerThanIndicesOf32Bits) {
  ExpectDivides<int32_t>({0, 1, 1000, INT32_MAX}, int64_t{INT32_MAX} + 1);
  ExpectDivides<int32_t>({0, 1, 1000, INT32_MAX}, int64_t{1} << 40);
}

TEST(Divisor, IsTheSizeOfAnArrayWithoutElements) { EXPECT_EQ(int64_t{Divisor(0)}, 0); }

}  // namespace
}  // namespace millrace::test
