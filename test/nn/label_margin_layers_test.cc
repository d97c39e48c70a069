// LabelSpecificAdd and CosinAddm.
#include <cmath>
#include <functional>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string AddText(const std::string& param) {
  return "name: 'margin' type: 'LabelSpecificAdd' label_specific_add_param { " + param + " }";
}
std::string AngleText(const std::string& param) {
  return "name: 'margin' type: 'CosinAddm' cosin_add_m_param { " + param + " }";
}

// The scores with `margin` applied to those of the labels.
Array WithMargin(Array scores, const Array& labels, const std::function<double(double)>& margin) {
  const size_t classes = scores.size() / labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    double& score = scores[n * classes + static_cast<size_t>(labels[n])];
    score = margin(score);
  }
  return scores;
}

double AddedAngle(double cosine, double m) {
  const double angle = std::acos(cosine);
  return angle < M_PI - m ? std::cos(angle + m) : cosine - m * std::sin(M_PI - m);
}

TEST(LabelSpecificAddLayer, AddsTheBiasToScoresOfLabelsAboveIt) {
  Rng rng(Seed(), {1});
  const Array scores = Uniform(60 * 4, -1, 1, &rng), labels = RandomClasses(60, 4, &rng);
  const auto runner = RunnerOf(AddText("bias: -0.35"), {{{60, 2, 2}, scores}, {{60, 1}, labels}});
  const Array want = WithMargin(scores, labels, [](double x) { return x > 0.35 ? x - 0.35 : x; });
  EXPECT_EQ(runner->top().shape(), (Shape{60, 2, 2}));
  EXPECT_EQ(Diff(want, runner->Output(), 1e-6), "");
  const Array dy = Uniform(60 * 4, -1, 1, &rng);
  runner->Backward(dy);
  EXPECT_EQ(GetDiff(runner->bottom()), dy);
}

TEST(LabelSpecificAddLayer, WorksInPlace) {
  LayerRunner runner(AddText("bias: -0.25"));
  runner.AddBottom({2, 2}, {1, 0.75, 0.125, 0.5});
  runner.AddBottom({2}, {1, 0});
  runner.SetUpInPlace();
  EXPECT_EQ(runner.Output(), (Array{1, 0.5, 0.125, 0.5}));
  runner.Backward({1, 2, 3, 4});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{1, 2, 3, 4}));
}

TEST(LabelSpecificAddLayer, TheBiasFollowsThePasses) {
  const auto bias = [](const std::string& param, uint64_t pass) {
    const auto runner = RunnerOf(AddText(param), {{{1, 1}, {100}}, {{1}, {0}}}, 2);
    runner->set_pass(pass);
    const double score = runner->Output()[0], bias = GetData(runner->top(1))[0];
    EXPECT_NEAR(score, 100 + bias, 1e-4);
    return bias;
  };
  EXPECT_EQ(bias("bias: -0.5", 7), -0.5);
  const std::string falling = "bias_base: -0.1 bias_gamma: 0.5 bias_power: -1 bias_min: -0.8 ";
  EXPECT_NEAR(bias(falling, 0), -0.1, 1e-6);
  EXPECT_NEAR(bias(falling, 2), -0.6, 1e-6);
  EXPECT_NEAR(bias(falling + "iteration: 1", 1), -0.6, 1e-6);
  EXPECT_NEAR(bias(falling, 1000), -0.8, 1e-6);
  EXPECT_NEAR(bias("bias_base: 5 bias_min: -1 bias_max: -0.2", 0), -0.2, 1e-6);
}

TEST(CosinAddmLayer, IncreasesTheAnglesOfLabels) {
  Rng rng(Seed(), {2});
  for (const double m : {0.5, 0.0, 2.0}) {
    SCOPED_TRACE(m);
    const Array scores = Uniform(80 * 3, -0.99, 0.99, &rng), labels = RandomClasses(80, 3, &rng);
    const auto runner = RunnerOf(AngleText(StrCat("m: ", m)), {{{80, 3}, scores}, {{80}, labels}});
    EXPECT_EQ(Diff(WithMargin(scores, labels, [&](double x) { return AddedAngle(x, m); }),
                   runner->Output(), 1e-5),
              "");
  }
}

TEST(CosinAddmLayer, HalfARadianIsTheDefault) {
  const auto runner = RunnerOf(AngleText(""), {{{1, 2}, {0.25, 0.25}}, {{1}, {1}}});
  EXPECT_EQ(Diff({0.25, AddedAngle(0.25, 0.5)}, runner->Output(), 1e-6), "");
}

TEST(CosinAddmLayer, GradientsAreRight) {
  Rng rng(Seed(), {3});
  Array scores = Uniform(20 * 3, -0.8, 0.8, &rng);
  const Array labels = RandomClasses(20, 3, &rng);
  // Half of the labels are beyond pi - m, none close to it.
  for (size_t n = 0; n < labels.size(); ++n) {
    if (n % 2 == 0) scores[n * 3 + static_cast<size_t>(labels[n])] = -0.95;
  }
  const auto runner = RunnerOf(AngleText(""), {{{20, 3}, scores}, {{20}, labels}});
  GradientCheck check;
  check.step = 5e-3;
  EXPECT_EQ(runner->CheckGradients(check), "");
}

TEST(CosinAddmLayer, BearsCosinesThatRoundingTookOutOfRange) {
  const auto runner =
      RunnerOf(AngleText("m: 0.5"), {{{4, 1}, {1, 1.001, -1, -1.001}}, {{4}, {0, 0, 0, 0}}});
  const double beyond = 0.5 * std::sin(0.5);
  EXPECT_EQ(
      Diff({std::cos(0.5), std::cos(0.5), -1 - beyond, -1.001 - beyond}, runner->Output(), 1e-5),
      "");
  runner->Backward({1, 2, 3, 4});
  EXPECT_EQ(GetDiff(runner->bottom()), (Array{1, 2, 3, 4}));
}

TEST(LabelMarginLayers, LeaveTestsAsTheyAre) {
  for (const std::string& text : {AddText("bias: -0.25 transform_test: true"), AngleText("")}) {
    LayerRunner runner(text, caffe::TEST);
    runner.AddBottom({1, 2}, {0.5, 0.75});
    runner.AddBottom({1}, {1});
    runner.SetUp();
    EXPECT_EQ(runner.Output(), (Array{0.5, 0.75})) << text;
    runner.Backward({3, 4});
    EXPECT_EQ(GetDiff(runner.bottom()), (Array{3, 4})) << text;
    runner.layer().CheckForward(runner.bottoms());
  }
}

TEST(LabelMarginLayers, FollowBottomsOfAnotherShape) {
  const auto runner = RunnerOf(AddText("bias: -1"), {{{1, 1}, {2}}, {{1}, {0}}});
  Resize(runner.get(), {{{2, 3}, {3, 3, 3, 3, 3, 3}}, {{2}, {2, 0}}});
  EXPECT_EQ(runner->Output(), (Array{3, 3, 2, 2, 3, 3}));
}

TEST(LabelMarginLayers, NameALabelThatIsNoClass) {
  for (const std::string& text : {AddText("bias: -1"), AngleText("")}) {
    const auto runner = RunnerOf(text, {{{2, 2}, Array(4)}, {{2}, {1, 2}}});
    EXPECT_EQ(LabelError(runner.get()),
              "layer 'margin': label 2 at position 1 of the batch is not one of the 2 classes 0 to "
              "1");
  }
}

TEST(LabelMarginLayers, RefuseBadSettings) {
  const auto complaint = [](const std::string& text, const Shape& labels = {2}) {
    return SetUpError(text, {{2, 3}, labels});
  };
  EXPECT_CONTAINS(complaint(AddText(""), {3}), "expected 2 labels: one for each example");
  EXPECT_CONTAINS(complaint(AddText("bias: nan")), "expected a finite number");
  EXPECT_CONTAINS(complaint(AddText("bias_gamma: -1")), "-1 given, expected at least 0");
  EXPECT_CONTAINS(complaint(AddText("bias_min: 1 bias_max: -1")),
                  "1 given, expected at most bias_max, -1");
  EXPECT_CONTAINS(complaint(AngleText("m: -0.5")), "expected an angle from 0 to pi");
  EXPECT_CONTAINS(complaint(AngleText("m: nan")), "expected an angle from 0 to pi");
  EXPECT_EQ(RunnerOf(AngleText(""), {{{1, 1}, {0}}, {{1}, {0}}})->layer().MayWorkInPlace(), false);
}

}  // namespace
}  // namespace millrace::test
