#include <algorithm>
#include <cmath>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string Text(const std::string& param = "") {
  return "type: 'Insanity' insanity_param { " + param + " }";
}

TEST(InsanityLayer, DividesNegativesByNumbersOfTheRange) {
  Rng rng(Seed(), {1});
  struct Case {
    std::string param;
    double low, high;
  };
  for (const Case& c :
       {Case{"", 5, 10}, Case{"lb: 3 ub: 5", 3, 5}, Case{"lb: -8 ub: -3", -8, -3}}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(StrCat(c.param, in_place ? " in place" : ""));
      const int64_t count = 4 * 5 * 1001;
      const Array x = Uniform(count, -1, 1, &rng), dy = Uniform(count, -1, 1, &rng);
      LayerRunner runner(Text(c.param));
      runner.AddBottom({4, 5, 1001}, x);
      if (in_place) {
        runner.SetUpInPlace();
      } else {
        runner.SetUp();
      }
      const Array y = runner.Output();
      runner.Backward(dy);
      const Array dx = GetDiff(runner.bottom());
      double smallest = INFINITY, largest = -INFINITY, sum = 0;
      int64_t divided = 0;
      for (int64_t i = 0; i < count; ++i) {
        if (x[i] > 0) {
          ASSERT_EQ(y[i], x[i]);
          ASSERT_EQ(dx[i], dy[i]);
          continue;
        }
        const double divisor = x[i] / y[i];
        // The gradient has the divisor of its value.
        ASSERT_NEAR(dy[i] / dx[i], divisor, 1e-4 * std::fabs(divisor));
        smallest = std::min(smallest, divisor);
        largest = std::max(largest, divisor);
        sum += divisor;
        ++divided;
      }
      const double width = c.high - c.low, slack = 1e-5 * std::fabs(c.low) + 1e-5;
      EXPECT_GE(smallest, c.low - slack);
      EXPECT_LE(largest, c.high + slack);
      // About 10,000 draws: the ends of the range and its middle are met closely.
      EXPECT_LT(smallest, c.low + 0.02 * width);
      EXPECT_GT(largest, c.high - 0.02 * width);
      EXPECT_NEAR(sum / static_cast<double>(divided), (c.low + c.high) / 2, 0.03 * width);
    }
  }
}

TEST(InsanityLayer, DrawsAnewInEachPass) {
  LayerRunner runner(Text());
  runner.AddBottom({64}, Array(64, -1.0));
  runner.SetUp();
  runner.set_pass(3);
  const Array first = runner.Output();
  EXPECT_EQ(runner.Output(), first);
  runner.set_pass(4);
  EXPECT_NE(runner.Output(), first);
  EXPECT_NE(first[0], first[1]);
}

TEST(InsanityLayer, TestsDivideByTheMean) {
  LayerRunner runner(Text("lb: 3 ub: 8"), caffe::TEST);
  runner.AddBottom({3}, {2, -4, 0});
  runner.SetUp();
  EXPECT_EQ(Diff({2, -4 * std::log(8 / 3.0) / 5, 0}, runner.Output(), 1e-6), "");
  EXPECT_EQ(runner.layer().MayWorkInPlace(), true);
}

TEST(InsanityLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
    Array x = Uniform(30, -1, 1, &rng);
    for (double& value : x) value += value > 0 ? 0.1 : -0.1;  // off the corner
    LayerRunner runner(Text("lb: 2 ub: 3"), phase);
    runner.AddBottom({5, 6}, x);
    runner.SetUp();
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(InsanityLayer, RefusesARangeWithZero) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner(Text(param));
    runner.AddBottom({1}, {0});
    return ErrorOf([&] { runner.SetUp(); });
  };
  for (const char* param : {"lb: 0 ub: 1", "lb: -1 ub: 2", "lb: 3 ub: 3", "lb: 9 ub: 4",
                            "lb: nan ub: 4", "lb: 3 ub: inf"}) {
    EXPECT_CONTAINS(complaint(param), "expected a smaller number of the same sign");
  }
  EXPECT_CONTAINS(complaint("lb: 9 ub: 4"), "9 given with an ub of 4");
}

}  // namespace
}  // namespace millrace::test
