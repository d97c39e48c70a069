#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string MarginInnerProductText(const std::string& param) {
  return "name: 'ip' type: 'MarginInnerProduct' margin_inner_product_param { " + param + " }";
}

const std::vector<std::string> kTypes = {"SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"};

// (-1)^k cos(m a) - 2k of the angle a between k pi/m and (k + 1) pi/m.
double Psi(double cosine, int multiple) {
  const double angle = std::acos(cosine);
  const int k = std::min(static_cast<int>(angle * multiple / M_PI), multiple - 1);
  return (k % 2 == 0 ? 1 : -1) * std::cos(multiple * angle) - 2 * k;
}

// The scores {rows, classes} by the formulas of the paper.
Array Scores(const Array& x, const Array& labels, const Array& weights, int multiple,
             double lambda) {
  const size_t rows = labels.size(), features = x.size() / rows;
  const size_t classes = weights.size() / features;
  Array scores;
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < classes; ++n) {
      double dot = 0, xx = 0, ww = 0;
      for (size_t k = 0; k < features; ++k) {
        const double a = x[m * features + k], b = weights[n * features + k];
        dot += a * b;
        xx += a * a;
        ww += b * b;
      }
      const double cosine = dot / std::sqrt(xx * ww), length = std::sqrt(xx);
      scores.push_back(static_cast<double>(n) == labels[m]
                           ? length * (lambda * cosine + Psi(cosine, multiple)) / (1 + lambda)
                           : length * cosine);
    }
  }
  return scores;
}

TEST(MarginInnerProductLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (int multiple = 1; multiple <= 4; ++multiple) {
    for (const double lambda : {0.0, 1.5}) {
      SCOPED_TRACE(StrCat(kTypes[multiple - 1], " ", lambda));
      // Few features: the angles are spread over all pieces.
      const Array x = Uniform(40 * 2, -2, 2, &rng), labels = RandomClasses(40, 3, &rng);
      const Array weights = Uniform(3 * 2, -2, 2, &rng);
      const auto runner =
          RunnerOf(MarginInnerProductText(
                       StrCat("num_output: 3 type: ", kTypes[multiple - 1], " base: ", lambda)),
                   {{{40, 2}, x}, {{40}, labels}}, 2);
      SetData(weights, &runner->param(0));
      EXPECT_EQ(Diff(Scores(x, labels, weights, multiple, lambda), runner->Output(), 1e-5), "");
      EXPECT_EQ(GetData(runner->top(1)), Array{lambda});
    }
  }
}

TEST(MarginInnerProductLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const std::string& type : kTypes) {
    SCOPED_TRACE(type);
    const auto runner =
        RunnerOf(MarginInnerProductText("num_output: 4 base: 0.5 type: " + type),
                 {{{6, 3}, Uniform(18, -2, 2, &rng)}, {{6}, RandomClasses(6, 4, &rng)}}, 2);
    Array weights = Uniform(12, -1, 1, &rng);
    for (int n = 0; n < 4; ++n) weights[n * 3] = n % 2 == 0 ? 0.8 : -0.8;  // none is short
    SetData(weights, &runner->param(0));
    GradientCheck check;
    check.top_scale = {1, 0};
    check.step = 5e-3;  // the curvature has jumps
    EXPECT_EQ(runner->CheckGradients(check), "");
  }
}

TEST(MarginInnerProductLayer, ScoresDoNotDependOnTheLengthOfWeights) {
  const auto runner = RunnerOf(MarginInnerProductText("num_output: 2 type: QUADRUPLE base: 0"),
                               {{{2, 2}, {3, 4, 0.6, -0.8}}, {{2}, {0, 1}}});
  SetData({1, 0, 0, 1}, &runner->param(0));
  const Array scores = runner->Output();
  SetData({7, 0, 0, 0.125}, &runner->param(0));
  EXPECT_EQ(Diff(scores, runner->Output(), 1e-6), "");
  // The cosines of the labels are 0.6 and -0.8.
  EXPECT_EQ(Diff({5 * Psi(0.6, 4), 4, 0.6, Psi(-0.8, 4)}, scores, 1e-5), "");
  // A step along the gradient turns weights, and keeps their length.
  runner->Backward({1, 2, 3, 4});
  const Array weights = GetData(runner->param(0)), diff = GetDiff(runner->param(0));
  for (int n = 0; n < 2; ++n) {
    EXPECT_NEAR(weights[n * 2] * diff[n * 2] + weights[n * 2 + 1] * diff[n * 2 + 1], 0, 1e-4);
  }
}

TEST(MarginInnerProductLayer, LambdaFallsWithThePasses) {
  const auto lambda = [](const std::string& param, uint64_t pass) {
    const auto runner =
        RunnerOf(MarginInnerProductText("num_output: 1 " + param), {{{1, 1}, {1}}, {{1}, {0}}}, 2);
    runner->set_pass(pass);
    runner->Forward();
    return GetData(runner->top(1))[0];
  };
  const std::string falling = "base: 1000 gamma: 0.12 power: 1 lambda_min: 5 ";
  EXPECT_NEAR(lambda(falling, 0), 1000 / 1.12, 1e-3);
  EXPECT_NEAR(lambda(falling, 99), 1000 / 13.0, 1e-3);
  EXPECT_NEAR(lambda(falling + "iteration: 50", 49), 1000 / 13.0, 1e-3);
  EXPECT_EQ(lambda(falling, 1000000), 5);
  EXPECT_NEAR(lambda("base: 4 gamma: 0.5 power: 2", 5), 4 / 16.0, 1e-6);
}

TEST(MarginInnerProductLayer, BearsZeros) {
  for (const std::string& type : kTypes) {
    const auto runner = RunnerOf(MarginInnerProductText("num_output: 2 base: 0 type: " + type),
                                 {{{2, 2}, {0, 0, 1, 1}}, {{2}, {0, 1}}});
    SetData({1, 0, 0, 0}, &runner->param(0));
    for (const double value : runner->Output()) EXPECT_TRUE(std::isfinite(value)) << type;
    runner->Backward({1, 1, 1, 1});
    for (const double value : GetDiff(runner->bottom())) EXPECT_TRUE(std::isfinite(value)) << type;
  }
}

TEST(MarginInnerProductLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(MarginInnerProductText("num_output: 2 axis: 2"),
                               {{{1, 2, 1, 1}, {1, 2}}, {{1, 2}, {0, 1}}});
  EXPECT_EQ(runner->top().shape(), (Shape{1, 2, 2}));
  SetData({1, -3}, &runner->param(0));
  Resize(runner.get(), {{{1, 1, 1}, {5}}, {{1, 1}, {0}}});
  EXPECT_EQ(runner->Output(), (Array{5, -5}));
}

TEST(MarginInnerProductLayer, NamesALabelThatIsNoClass) {
  const auto runner =
      RunnerOf(MarginInnerProductText("num_output: 2"), {{{2, 1}, {1, 1}}, {{2}, {1, 2}}});
  EXPECT_EQ(LabelError(runner.get()),
            "layer 'ip': label 2 at position 1 of the batch is not one of the 2 classes 0 to 1");
}

TEST(MarginInnerProductLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& labels = {2}) {
    return SetUpError(MarginInnerProductText(param), {{2, 3}, labels});
  };
  EXPECT_CONTAINS(complaint(""), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 axis: 2"), "2 is not an axis");
  EXPECT_CONTAINS(complaint("num_output: 2", {3}), "expected 2 labels: one for each row");
  EXPECT_CONTAINS(complaint("num_output: 2 base: -1"), "-1 given, expected a finite number");
  EXPECT_CONTAINS(complaint("num_output: 2 gamma: -1"), "-1 given, expected a finite number");
  EXPECT_CONTAINS(complaint("num_output: 2 power: nan"), "expected a finite number");
  EXPECT_CONTAINS(complaint("num_output: 2 lambda_min: inf"), "expected a finite number");
  EXPECT_CONTAINS(complaint("num_output: 2 iteration: -1"), "-1 given, expected at least 0");
  EXPECT_CONTAINS(complaint("num_output: 2 weight_filler { type: 'x' }"), "there is no filler 'x'");
}

}  // namespace
}  // namespace millrace::test
