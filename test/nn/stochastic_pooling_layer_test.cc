#include <cmath>
#include <map>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

constexpr const char* kText =
    "type: 'Pooling' bottom: 'x' pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }";

TEST(StochasticPoolingLayer, DrawsValuesInProportionToThem) {
  const Array x = {1, 0, 2, 5};
  std::map<double, int> drawn;
  LayerRunner runner(
      "type: 'Pooling' bottom: 'x' pooling_param { pool: STOCHASTIC kernel_size: 2 }");
  constexpr int64_t kPlanes = 500;
  Array planes;
  for (int64_t i = 0; i < kPlanes; ++i) planes.insert(planes.end(), x.begin(), x.end());
  runner.AddBottom({1, kPlanes, 2, 2}, planes);
  runner.SetUp();
  constexpr int kPasses = 16;
  for (int pass = 0; pass < kPasses; ++pass) {
    runner.set_pass(pass);
    for (const double value : runner.Output()) ++drawn[value];
  }
  const double draws = kPlanes * kPasses;
  EXPECT_EQ(drawn.count(0), 0u);
  for (const double value : {1.0, 2.0, 5.0}) {
    const double p = value / 8;
    EXPECT_NEAR(drawn[value], draws * p, 5 * std::sqrt(draws * p * (1 - p))) << value;
  }
}

TEST(StochasticPoolingLayer, DrawsAreAFunctionOfThePass) {
  Rng rng(Seed(), {1});
  LayerRunner runner(kText);
  runner.AddBottom({2, 3, 7, 8}, Uniform(336, 0, 1, &rng));
  runner.SetUp();
  const Array first = runner.Output();
  EXPECT_EQ(runner.Output(), first);
  runner.set_pass(2);
  EXPECT_NE(runner.Output(), first);
}

TEST(StochasticPoolingLayer, GivesTheGradientToTheDrawnValue) {
  Rng rng(Seed(), {2});
  LayerRunner runner(kText);
  const Array x = Apart(2 * 3 * 7 * 7, 0.01, &rng);
  Array positive;
  for (const double value : x) positive.push_back(static_cast<float>(value + 2));
  runner.AddBottom({2, 3, 7, 7}, positive);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), (Shape{2, 3, 3, 3}));
  const Array y = runner.Output(), dy = Uniform(54, 1, 2, &rng);
  runner.Backward(dy);
  Array dx(x.size(), 0.0);
  for (int64_t i = 0; i < 54; ++i) {
    const int64_t corner = i / 9 * 49 + i / 3 % 3 * 14 + i % 3 * 2;
    int found = 0;
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t at = corner + tap / 3 * 7 + tap % 3;
      if (positive[at] != y[i]) continue;
      dx[at] += dy[i];
      ++found;
    }
    ASSERT_EQ(found, 1);
  }
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
}

TEST(StochasticPoolingLayer, TestsWithTheWeightedMean) {
  Rng rng(Seed(), {3});
  const Array x = Uniform(2 * 36, 0.1, 1, &rng);
  LayerRunner runner(kText, caffe::TEST);
  runner.AddBottom({1, 2, 6, 6}, x);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), (Shape{1, 2, 3, 3}));  // the last windows are cut off
  Array expected;
  for (int i = 0; i < 18; ++i) {
    double sum = 0, squares = 0;
    for (int row = i / 3 % 3 * 2; row < std::min(i / 3 % 3 * 2 + 3, 6); ++row) {
      for (int column = i % 3 * 2; column < std::min(i % 3 * 2 + 3, 6); ++column) {
        const double value = x[i / 9 * 36 + row * 6 + column];
        sum += value, squares += value * value;
      }
    }
    expected.push_back(squares / sum);
  }
  EXPECT_EQ(Diff(expected, runner.Output(), 1e-6), "");
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(StochasticPoolingLayer, TestsAWindowOfZerosAsZero) {
  LayerRunner runner(kText, caffe::TEST);
  runner.AddBottom({1, 1, 3, 3}, Array(9, 0.0));
  runner.SetUp();
  EXPECT_EQ(runner.Output(), Array{0});
  runner.Backward({1});
  EXPECT_EQ(GetDiff(runner.bottom()), Array(9, 0.0));
}

}  // namespace
}  // namespace millrace::test
