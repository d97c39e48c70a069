#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

const char kText[] = "name: 'loss' type: 'MultinomialLogisticLoss'";

TEST(MultinomialLogisticLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 2, 1}}) {
    const int64_t examples = shape[0], classes = ShapeCount(shape) / examples;
    const Array p = Uniform(ShapeCount(shape), 0.1, 1, &rng);
    const Array labels = RandomClasses(examples, static_cast<int>(classes), &rng);
    double loss = 0;
    Array dp(p.size());
    for (int64_t n = 0; n < examples; ++n) {
      const int64_t at = n * classes + static_cast<int64_t>(labels[n]);
      loss -= std::log(p[at]) / examples;
      dp[at] = -0.5 / p[at] / examples;
    }
    const auto runner = RunnerOf(kText, {{shape, p}, {{examples, 1}, labels}});
    EXPECT_EQ(Diff({loss}, runner->Output(), 1e-6), "");
    runner->Backward({0.5});
    EXPECT_EQ(Diff(dp, GetDiff(runner->bottom()), 1e-6), "");
  }
}

TEST(MultinomialLogisticLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const auto runner =
      RunnerOf(kText, {{{3, 4}, Uniform(12, 0.4, 1, &rng)}, {{3}, RandomClasses(3, 4, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(MultinomialLogisticLossLayer, ImprobableLabelsCostAFiniteLoss) {
  const auto runner = RunnerOf(kText, {{{1, 2}, {0, 1}}, {{1}, {0}}});
  EXPECT_NEAR(runner->Output()[0], -std::log(1e-20), 1e-4);
  runner->Backward({1});
  EXPECT_NEAR(GetDiff(runner->bottom())[0], -1e20, 1e14);
}

TEST(MultinomialLogisticLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(kText, {{{1, 2}, {0.5, 0.5}}, {{1}, {0}}});
  EXPECT_NEAR(runner->Output()[0], std::log(2), 1e-6);
  Resize(runner.get(), {{{2, 1}, {1, 1}}, {{2}, {0, 0}}});
  EXPECT_EQ(runner->Output(), Array{0});
}

TEST(MultinomialLogisticLossLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(kText, {{{2, 3}, Array(6, 0.5)}, {{2}, {-1, 0}}});
  EXPECT_CONTAINS(LabelError(runner.get()), "label -1 at position 0 of the batch");
}

TEST(MultinomialLogisticLossLayer, RefusesLabelsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(kText, {{4, 3}, {4, 3}}), "expected 4 labels: one for each example");
  EXPECT_CONTAINS(SetUpError(kText, {{4, 3}, {2}}), "expected the 4 examples of bottom[0]");
}

TEST(MultinomialLogisticLossLayer, IsALossOfItsProbabilitiesAlone) {
  ExpectLossOfBottomZero(RunnerOf(kText, {{{1, 2}, {1, 1}}, {{1}, {0}}})->layer());
}

}  // namespace
}  // namespace millrace::test
