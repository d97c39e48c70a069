#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

struct Case {
  std::string param;
  std::function<double(const std::vector<double>&)> value;
};

std::vector<Case> Cases() {
  const auto sum = [](const std::vector<double>& x) { return x[0] + x[1] + x[2]; };
  const auto product = [](const std::vector<double>& x) { return x[0] * x[1] * x[2]; };
  return {
      {"", sum},
      {"operation: SUM coeff: 2 coeff: -1 coeff: 0.5",
       [](const std::vector<double>& x) { return 2 * x[0] - x[1] + 0.5 * x[2]; }},
      {"operation: PROD", product},
      {"operation: PROD stable_prod_grad: false", product},
      {"operation: MAX",
       [](const std::vector<double>& x) {
         return std::max({x[0], x[1], x[2]});
       }},
  };
}

TEST(EltwiseLayer, CombinesThreeBlobsInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  const Shape shape = {2, 16, 3, 5};
  const int64_t count = ShapeCount(shape);
  for (const Case& each : Cases()) {
    for (const Layout order : kLayouts) {
      SCOPED_TRACE(each.param + " " + LayoutName(order));
      LayerRunner runner("type: 'Eltwise' eltwise_param { " + each.param + " }");
      // Away from 0, by which the second form of the product's gradient divides.
      const Array all = Apart(3 * count, 0.01, &rng);
      std::vector<Array> x;
      for (int k = 0; k < 3; ++k) {
        x.emplace_back(all.begin() + k * count, all.begin() + (k + 1) * count);
        for (double& value : x[k]) value = static_cast<float>(value + (value > 0 ? 0.5 : -0.5));
        runner.AddBottom(shape, x[k], k == 1 ? Layout::kPlain : order);
      }
      runner.SetUp();
      EXPECT_EQ(runner.top().layout(), order);
      Array expected;
      for (int64_t i = 0; i < count; ++i)
        expected.push_back(each.value({x[0][i], x[1][i], x[2][i]}));
      EXPECT_EQ(Diff(expected, runner.Output(), 1e-6), "");
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(EltwiseLayer, CombinesTwoBlobsOfAnyRank) {
  Rng rng(Seed(), {2});
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{2, 3, 2, 2, 3}}) {
    const int64_t count = ShapeCount(shape);
    const Array a = Uniform(count, -1, 1, &rng), b = Uniform(count, -1, 1, &rng);
    LayerRunner runner("type: 'Eltwise' eltwise_param { operation: PROD }");
    runner.AddBottom(shape, a);
    runner.AddBottom(shape, b);
    runner.SetUp();
    Array expected(count);
    for (int64_t i = 0; i < count; ++i) expected[i] = a[i] * b[i];
    EXPECT_EQ(Diff(expected, runner.Output(), 1e-6), "");
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(EltwiseLayer, StableGradientOfAProductIsFiniteAtZero) {
  LayerRunner runner("type: 'Eltwise' eltwise_param { operation: PROD }");
  runner.AddBottom({2}, {0, 3});
  runner.AddBottom({2}, {5, 0});
  runner.SetUp();
  runner.Forward();
  runner.Backward({2, 4});
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{10, 0}));
  EXPECT_EQ(GetDiff(runner.bottom(1)), (Array{0, 12}));
}

TEST(EltwiseLayer, GivesTheGradientOfEqualMaximaToTheSecondBottom) {
  LayerRunner runner("type: 'Eltwise' eltwise_param { operation: MAX }");
  for (int k = 0; k < 3; ++k) runner.AddBottom({1}, {4});
  runner.SetUp();
  runner.Forward();
  runner.Backward({6});
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{0}));
  EXPECT_EQ(GetDiff(runner.bottom(1)), (Array{6}));
  EXPECT_EQ(GetDiff(runner.bottom(2)), (Array{0}));
}

TEST(EltwiseLayer, WritesOnlyTheGradientsThatAreAskedFor) {
  Rng rng(Seed(), {3});
  for (const Case& each : Cases()) {
    LayerRunner runner("type: 'Eltwise' eltwise_param { " + each.param + " }");
    const Array all = Apart(18, 0.25, &rng);
    for (int k = 0; k < 3; ++k) {
      runner.AddBottom({2, 3}, Array(all.begin() + k * 6, all.begin() + (k + 1) * 6));
    }
    runner.SetUp();
    GradientCheck check;
    check.propagate_down = {false, true, false};
    EXPECT_EQ(runner.CheckGradients(check), "");
  }
}

TEST(EltwiseLayer, AMaximumIgnoresCoefficients) {
  LayerRunner runner("type: 'Eltwise' eltwise_param { operation: MAX coeff: -1 coeff: 5 }");
  runner.AddBottom({2}, {3, -4});
  runner.AddBottom({2}, {2, -3});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), (Array{3, -3}));
  runner.Backward({1, 2});
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{1, 0}));
  EXPECT_EQ(GetDiff(runner.bottom(1)), (Array{0, 2}));
}

TEST(EltwiseLayer, ProductsAndMaximaWorkInPlace) {
  Rng rng(Seed(), {4});
  for (const Case& each : Cases()) {
    LayerRunner runner("type: 'Eltwise' eltwise_param { " + each.param + " }");
    const Array all = Apart(36, 0.1, &rng);
    std::vector<Array> x;
    for (int k = 0; k < 3; ++k) {
      x.emplace_back(all.begin() + k * 12, all.begin() + (k + 1) * 12);
      runner.AddBottom({3, 4}, x[k]);
    }
    const bool sum =
        each.param.find("PROD") == std::string::npos && each.param.find("MAX") == std::string::npos;
    if (sum) continue;
    SCOPED_TRACE(each.param);
    runner.SetUpInPlace();
    EXPECT_TRUE(runner.layer().MayWorkInPlace());
    Array expected;
    for (int i = 0; i < 12; ++i) expected.push_back(each.value({x[0][i], x[1][i], x[2][i]}));
    EXPECT_EQ(Diff(expected, runner.Output(), 1e-6), "");
    SetData(x[0], &runner.bottom());  // which the pass has overwritten
    EXPECT_EQ(runner.CheckGradients(), "");
  }
  LayerRunner sum("type: 'Eltwise'");
  sum.AddBottom({1}, {1});
  sum.AddBottom({1}, {1});
  sum.SetUp();
  EXPECT_FALSE(sum.layer().MayWorkInPlace());
}

TEST(EltwiseLayer, FollowsBottomsOfAnotherSize) {
  LayerRunner runner("type: 'Eltwise' eltwise_param { operation: MAX }");
  runner.AddBottom({1}, {1});
  runner.AddBottom({1}, {2});
  runner.SetUp();
  runner.Forward();
  runner.bottom(1).Reshape({3});
  SetData({5, 1, 7}, &runner.bottom(1));
  runner.Reshape({3}, {4, 3, 9});
  EXPECT_EQ(runner.Output(), (Array{5, 3, 9}));
  runner.Backward({1, 2, 3});
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{0, 2, 3}));
}

TEST(EltwiseLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& second = {2, 3}) {
    LayerRunner runner("type: 'Eltwise' eltwise_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6));
    runner.AddBottom(second, Array(ShapeCount(second)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("coeff: 1"), "1 given, expected 2, one per bottom");
  EXPECT_CONTAINS(complaint("operation: PROD coeff: 1 coeff: 1"), "only the operation SUM");
  EXPECT_CONTAINS(complaint("operation: MAX coeff: 1"), "1 given, expected 2, one per bottom");
  EXPECT_CONTAINS(complaint("", {3, 2}), "expected that of bottom[0]");
}

}  // namespace
}  // namespace millrace::test
