// The host runs kernels of both kinds, in place too.
#include "device/kernel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "millrace/queue.h"

namespace millrace::test {
namespace {

struct TwiceAndOne {
  const float* in;
  float* out;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { out[i] = 2 * in[i] + 1; }
};

struct SumOfRow {
  int64_t columns;
  const float* in;
  float* sums;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t row) const {
    const double sum = team.Sum(columns, [&](int64_t i) { return in[row * columns + i]; });
    team.Once([&] { sums[row] = static_cast<float>(sum); });
  }
};

TEST(Kernel, RunsForEveryElementOnTheHost) {
  for (const int64_t count : {0, 1, 7, 16, 33, 1000}) {
    std::vector<float> values(count + 1);
    std::iota(values.begin(), values.end(), 0.0f);
    Launch(HostQueue(), count, TwiceAndOne{values.data(), values.data()});
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], 2 * i + 1) << "of " << count;
    EXPECT_EQ(values[count], count) << "beyond the end";
  }
}

TEST(Kernel, RunsForEveryRowOnTheHost) {
  std::vector<float> values(5 * 30);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<float> sums(6, -1);
  Launch(HostQueue(), 5, SumOfRow{30, values.data(), sums.data()});
  for (int row = 0; row < 5; ++row) EXPECT_EQ(sums[row], 30 * (30 * row + 14.5f));
  EXPECT_EQ(sums[5], -1) << "beyond the end";
}

}  // namespace
}  // namespace millrace::test
