#include <cmath>
#include <optional>

#include "test/nn/loss_support.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Classes;

std::string FocalLossText(const std::string& param, const std::string& loss_param = "",
                          int axis = 1) {
  return StrCat("name: 'loss' type: 'FocalLoss' focal_loss_param { ", param, " } loss_param { ",
                loss_param, " } softmax_param { axis: ", axis, " }");
}

struct Case {
  Shape shape;
  int axis;
  Classes view;
};

const Case kCases[] = {
    {{6, 4}, 1, {6, 4, 1}}, {{2, 3, 2, 2}, 1, {2, 3, 4}}, {{3, 2, 5}, -1, {6, 5, 1}}};

TEST(FocalLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const Case& c : kCases) {
    for (std::optional<int> ignored : {std::optional<int>(), std::optional<int>(1)}) {
      SCOPED_TRACE(ShapeText(c.shape));
      const int64_t positions = c.view.positions();
      const Array x = Uniform(c.view.count(), -2, 2, &rng), p = c.view.Softmax(x);
      const Array labels = RandomClasses(positions, static_cast<int>(c.view.classes), &rng);
      double loss = 0, valid = 0;
      for (int64_t n = 0; n < positions; ++n) {
        if (ignored && labels[n] == *ignored) continue;
        const double q = p[c.view.Index(n, static_cast<int64_t>(labels[n]))];
        loss -= 0.3 * std::pow(1 - q, 1.5) * std::log(q);
        ++valid;
      }
      const auto runner =
          RunnerOf(FocalLossText("alpha: 0.3 gamma: 1.5", ignored ? "ignore_label: 1" : "", c.axis),
                   {{c.shape, x}, {{positions}, labels}}, 2);
      EXPECT_EQ(Diff({loss / std::max(valid, 1.0)}, runner->Output(), 1e-5), "");
      EXPECT_EQ(Diff(p, GetData(runner->top(1)), 1e-6), "");
    }
  }
}

TEST(FocalLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const Case& c : kCases) {
    for (const char* param : {"", "gamma: 0", "gamma: 0.5 alpha: 1"}) {
      SCOPED_TRACE(ShapeText(c.shape) + param);
      const int64_t positions = c.view.positions();
      const auto runner = RunnerOf(
          FocalLossText(param, "ignore_label: 0", c.axis),
          {{c.shape, Uniform(c.view.count(), -1, 1, &rng)},
           {{positions}, RandomClasses(positions, static_cast<int>(c.view.classes), &rng)}},
          2);
      GradientCheck check;
      check.top_scale = {1, 0};  // the probabilities have no gradient
      EXPECT_EQ(runner->CheckGradients(check), "");
    }
  }
}

TEST(FocalLossLayer, WithoutFocusIsTheSoftmaxLoss) {
  Rng rng(Seed(), {3});
  const Bottom x{{5, 3}, Uniform(15, -2, 2, &rng)}, labels{{5}, RandomClasses(5, 3, &rng)};
  const auto focal = RunnerOf(FocalLossText("gamma: 0 alpha: 1"), {x, labels});
  const auto softmax = RunnerOf("name: 'loss' type: 'SoftmaxWithLoss'", {x, labels});
  EXPECT_EQ(Diff(softmax->Output(), focal->Output(), 1e-6), "");
  for (const auto& runner : {&focal, &softmax}) (*runner)->Backward({1});
  EXPECT_EQ(Diff(GetDiff(softmax->bottom()), GetDiff(focal->bottom()), 1e-6), "");
}

TEST(FocalLossLayer, StaysFiniteForCertainPredictions) {
  for (const char* param : {"gamma: 2", "gamma: 0.5", "gamma: 0"}) {
    const auto runner =
        RunnerOf(FocalLossText(param), {{{2, 2}, {500, -500, 500, -500}}, {{2}, {0, 1}}});
    EXPECT_TRUE(std::isfinite(runner->Output()[0])) << param;
    runner->Backward({1});
    for (const double d : GetDiff(runner->bottom())) EXPECT_TRUE(std::isfinite(d)) << param;
  }
}

TEST(FocalLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(FocalLossText("gamma: 1 alpha: 1"), {{{1, 2}, {0, 0}}, {{1}, {0}}});
  EXPECT_NEAR(runner->Output()[0], 0.5 * std::log(2), 1e-6);
  Resize(runner.get(), {{{2, 4}, Array(8, 0.0)}, {{2}, {3, 1}}});
  EXPECT_NEAR(runner->Output()[0], 0.75 * std::log(4), 1e-6);
}

TEST(FocalLossLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(FocalLossText(""), {{{2, 2}, Array(4, 0.0)}, {{2}, {0, 2}}});
  EXPECT_CONTAINS(LabelError(runner.get()), "label 2 at position 1 of the batch");
}

TEST(FocalLossLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError(FocalLossText("type: LINEAR"), {{2, 2}, {2}}),
                  "LINEAR given, expected ORIGIN");
  EXPECT_CONTAINS(SetUpError(FocalLossText("gamma: -1"), {{2, 2}, {2}}),
                  "-1 given, expected at least 0");
  EXPECT_CONTAINS(SetUpError(FocalLossText("alpha: -1"), {{2, 2}, {2}}),
                  "-1 given, expected at least 0");
  EXPECT_CONTAINS(SetUpError(FocalLossText(""), {{2, 2}, {3}}), "expected 2 values");
}

TEST(FocalLossLayer, IsALossOfItsScoresAlone) {
  ExpectLossOfBottomZero(RunnerOf(FocalLossText(""), {{{1, 2}, {0, 0}}, {{1}, {0}}})->layer());
}

}  // namespace
}  // namespace millrace::test
