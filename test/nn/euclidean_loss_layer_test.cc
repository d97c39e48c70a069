#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

const char kText[] = "name: 'loss' type: 'EuclideanLoss'";

double Loss(const Array& a, const Array& b, int64_t examples) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum / 2 / static_cast<double>(examples);
}

TEST(EuclideanLossLayer, IsHalfTheMeanSquaredDistance) {
  Rng rng(Seed(), {1});
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 4, 5}, Shape{5}, Shape{50, 300}}) {
    SCOPED_TRACE(ShapeText(shape));
    const Array a = Uniform(ShapeCount(shape), -2, 2, &rng);
    const Array b = Uniform(ShapeCount(shape), -2, 2, &rng);
    const auto runner = RunnerOf(kText, {{shape, a}, {shape, b}});
    EXPECT_EQ(Diff({Loss(a, b, shape[0])}, runner->Output(), 1e-6), "");
    EXPECT_EQ(runner->top().shape(), Shape{});
    runner->Backward({0.75});
    Array da(a.size());
    for (size_t i = 0; i < a.size(); ++i) da[i] = 0.75 * (a[i] - b[i]) / shape[0];
    EXPECT_EQ(Diff(da, GetDiff(runner->bottom(0)), 1e-6), "");
    EXPECT_EQ(Diff(Scaled(da, -1), GetDiff(runner->bottom(1)), 1e-6), "");
  }
}

TEST(EuclideanLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const auto runner =
      RunnerOf(kText, {{{3, 4}, Uniform(12, -1, 1, &rng)}, {{3, 4}, Uniform(12, -1, 1, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
  GradientCheck second;
  second.propagate_down = {false, true};
  EXPECT_EQ(runner->CheckGradients(second), "");
}

TEST(EuclideanLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(kText, {{{1, 2}, {1, 2}}, {{1, 2}, {0, 0}}});
  EXPECT_EQ(runner->Output(), Array{2.5});
  Resize(runner.get(), {{{2, 3}, {1, 0, 0, 0, 0, 1}}, {{2, 3}, {0, 0, 0, 0, 0, -1}}});
  EXPECT_EQ(runner->Output(), Array{1.25});
}

TEST(EuclideanLossLayer, AcceptsTargetsOfAnotherFormWithTheSameCount) {
  const auto runner = RunnerOf(kText, {{{2, 3}, Array(6, 1.0)}, {{2, 1, 3}, Array(6, 0.0)}});
  EXPECT_EQ(runner->Output(), Array{1.5});
}

TEST(EuclideanLossLayer, RefusesBottomsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(kText, {{4, 3}, {3, 4}}), "expected the 4 examples of bottom[0]");
  EXPECT_CONTAINS(SetUpError(kText, {{4, 3}, {4, 2}}), "expected as many values as bottom[0]");
  EXPECT_CONTAINS(SetUpError(kText, {{}, {}}), "has no axes");
}

TEST(EuclideanLossLayer, HasGradientsForBothBottoms) {
  const auto runner = RunnerOf(kText, {{{1, 1}, {0}}, {{1, 1}, {0}}});
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
  EXPECT_TRUE(runner->layer().AllowBackward(0));
  EXPECT_TRUE(runner->layer().AllowBackward(1));
  EXPECT_TRUE(runner->layer().AutoTop());
}

}  // namespace
}  // namespace millrace::test
