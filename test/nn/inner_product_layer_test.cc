#include <cmath>

#include "test/nn/loss_support.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::InnerProduct;

struct InnerProductCase {
  Shape bottom, top;
  int axis;
  InnerProduct g;
};

std::vector<InnerProductCase> Cases() {
  std::vector<InnerProductCase> cases;
  for (bool transpose : {false, true}) {
    cases.push_back({{3, 7}, {3, 5}, 1, {3, 7, 5, transpose}});
    cases.push_back({{64, 100}, {64, 10}, 1, {64, 100, 10, transpose}});
    cases.push_back({{2, 16, 3, 2}, {2, 9}, 1, {2, 96, 9, transpose}});
    cases.push_back({{2, 3, 4, 5}, {2, 3, 6}, 2, {6, 20, 6, transpose}});
    cases.push_back({{2, 3, 4}, {2, 3, 1}, -1, {6, 4, 1, transpose}});
    cases.push_back({{6, 2}, {16}, 0, {1, 12, 16, transpose}});
    cases.push_back({{1, 1}, {1, 1}, 1, {1, 1, 1, transpose}});
    cases.push_back({{2, 3, 2, 1, 2, 2, 2}, {2, 3, 2, 3}, 3, {12, 8, 3, transpose}});
  }
  return cases;
}

std::string InnerProductText(const InnerProductCase& c, bool bias) {
  return StrCat("type: 'InnerProduct' bottom: 'x' inner_product_param { num_output: ", c.g.outputs,
                " axis: ", c.axis, " transpose: ", c.g.transpose ? "true" : "false",
                " bias_term: ", bias ? "true" : "false", " }");
}

TEST(InnerProductLayer, MatchesTheReference) {
  Rng rng(Seed(), {1});
  for (const InnerProductCase& c : Cases()) {
    for (bool with_bias : {true, false}) {
      SCOPED_TRACE(InnerProductText(c, with_bias));
      const InnerProduct& g = c.g;
      const Array x = Uniform(g.m * g.k, -1, 1, &rng);
      const Array weight = Uniform(g.k * g.outputs, -1, 1, &rng);
      const Array bias = with_bias ? Uniform(g.outputs, -1, 1, &rng) : Array();
      const Array dy = Uniform(g.m * g.outputs, -1, 1, &rng);
      Array dx, dweight, dbias;
      g.Backward(x, weight, dy, &dx, &dweight, &dbias);
      ForEachLayout(InnerProductText(c, with_bias), c.bottom, x, [&](LayerRunner& runner) {
        EXPECT_EQ(runner.top().shape(), c.top);
        EXPECT_EQ(runner.param(0).shape(),
                  g.transpose ? (Shape{g.k, g.outputs}) : (Shape{g.outputs, g.k}));
        SetData(weight, &runner.param(0));
        if (with_bias) SetData(bias, &runner.param(1));
        EXPECT_EQ(Diff(g.Forward(x, weight, bias), runner.Output(), 2e-5), "");
        runner.Backward(dy);
        EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-5), "");
        EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 2e-5), "");
        if (with_bias) {
          EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 2e-5), "");
        }
      });
    }
  }
}

TEST(InnerProductLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const InnerProductCase& c : Cases()) {
    for (bool with_bias : {true, false}) {
      SCOPED_TRACE(InnerProductText(c, with_bias));
      LayerRunner runner(InnerProductText(c, with_bias));
      runner.AddBottom(c.bottom, Uniform(c.g.m * c.g.k, -1, 1, &rng));
      runner.SetUp();
      SetData(Uniform(c.g.k * c.g.outputs, -1, 1, &rng), &runner.param(0));
      if (with_bias) SetData(Uniform(c.g.outputs, -1, 1, &rng), &runner.param(1));
      EXPECT_EQ(runner.CheckGradients(), "");
      GradientCheck blind;
      blind.propagate_down = {false};
      EXPECT_EQ(runner.CheckGradients(blind), "");
    }
  }
}

TEST(InnerProductLayer, FollowsABottomOfAnotherBatchSize) {
  Rng rng(Seed(), {3});
  InnerProduct g{2, 6, 4, false};
  const Array weight = Uniform(24, -1, 1, &rng), bias = Uniform(4, -1, 1, &rng);
  LayerRunner runner("type: 'InnerProduct' bottom: 'x' inner_product_param { num_output: 4 }");
  runner.AddBottom({2, 6}, Uniform(12, -1, 1, &rng));
  runner.SetUp();
  SetData(weight, &runner.param(0));
  SetData(bias, &runner.param(1));
  runner.Forward();
  for (int64_t m : {9, 1}) {
    g.m = m;
    const Array x = Uniform(6 * m, -1, 1, &rng);
    runner.Reshape({m, 6}, x);
    EXPECT_EQ(Diff(g.Forward(x, weight, bias), runner.Output()), "");
  }
  EXPECT_CONTAINS(ErrorOf([&] { runner.Reshape({2, 5}, Array(10, 0.0)); }), "expected 6");
}

// Rows of weights, scaled to the length 1.
Array UnitRowsOf(Array rows, int64_t columns) {
  for (size_t begin = 0; begin < rows.size(); begin += columns) {
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k) sum += rows[begin + k] * rows[begin + k];
    for (int64_t k = 0; k < columns; ++k) rows[begin + k] /= std::sqrt(sum);
  }
  return rows;
}

TEST(InnerProductLayer, NormalizesItsWeights) {
  Rng rng(Seed(), {4});
  for (const InnerProduct& g : {InnerProduct{3, 7, 5, false}, InnerProduct{64, 100, 10, false}}) {
    for (const bool with_bias : {true, false}) {
      SCOPED_TRACE(StrCat(g.m, with_bias ? " with bias" : ""));
      const Array x = Uniform(g.m * g.k, -1, 1, &rng), dy = Uniform(g.m * g.outputs, -1, 1, &rng);
      const Array weight = Uniform(g.k * g.outputs, -1, 1, &rng);
      const Array bias = with_bias ? Uniform(g.outputs, -1, 1, &rng) : Array();
      LayerRunner runner(
          StrCat("type: 'InnerProduct' bottom: 'x' inner_product_param {"
                 " normalize: true num_output: ",
                 g.outputs, with_bias ? "" : " bias_term: false", " }"));
      runner.AddBottom({g.m, g.k}, x);
      runner.SetUp();
      SetData(weight, &runner.param(0));
      if (with_bias) SetData(bias, &runner.param(1));
      const Array unit = UnitRowsOf(weight, g.k);
      EXPECT_EQ(Diff(g.Forward(x, unit, bias), runner.Output(), 2e-5), "");
      EXPECT_EQ(Diff(weight, GetData(runner.param(0)), 1e-6), "");  // passes do not write
      runner.Backward(dy);
      Array dx, dunit, dbias;
      g.Backward(x, unit, dy, &dx, &dunit, &dbias);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-5), "");
      if (with_bias) {
        EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 2e-5), "");
      }
      const Array once = GetDiff(runner.param(0));
      for (Param& param : runner.layer().params()) *param.has_gradient = true;
      runner.Backward(dy);
      EXPECT_EQ(Diff(Scaled(once, 2), GetDiff(runner.param(0)), 1e-5), "");
      for (Param& param : runner.layer().params()) *param.has_gradient = false;
      if (g.m == 3) {
        EXPECT_EQ(runner.CheckGradients(), "");
      }
    }
  }
}

TEST(InnerProductLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'InnerProduct' bottom: 'x' inner_product_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6, 0.0));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 axis: 2"), "2 is not an axis");
  EXPECT_CONTAINS(complaint("num_output: 2 normalize: true transpose: true"),
                  "true given, expected false as `transpose` is set");
  EXPECT_CONTAINS(complaint("num_output: 2 axis: -3"), "-3 is not an axis");
  EXPECT_CONTAINS(complaint("num_output: 2 weight_filler { type: 'x' }"), "there is no filler 'x'");
}

}  // namespace
}  // namespace millrace::test
