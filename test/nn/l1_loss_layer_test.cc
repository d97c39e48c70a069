#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

const char* const kText = "name: 'loss' type: 'L1Loss'";

TEST(L1LossLayer, IsTheMeanAbsoluteError) {
  const auto runner =
      RunnerOf(kText, {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 3}, {1, 0, 4, 9, 5, -2}}});
  EXPECT_EQ(runner->Output(), Array{(2 + 1 + 5 + 8) / 2.0});
  runner->Backward({4});
  EXPECT_EQ(GetDiff(runner->bottom(0)), (Array{0, 2, -2, -2, 0, 2}));
  EXPECT_EQ(GetDiff(runner->bottom(1)), (Array{0, -2, 2, 2, 0, -2}));
}

TEST(L1LossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  const Shape shape{5, 3, 4, 2};
  const Array a = Uniform(120, -2, 2, &rng), b = Uniform(120, -2, 2, &rng);
  double loss = 0;
  Array da(120);
  for (int i = 0; i < 120; ++i) {
    loss += std::abs(a[i] - b[i]) / 5;
    da[i] = 0.5 * (a[i] > b[i] ? 1 : -1) / 5;
  }
  const auto runner = RunnerOf(kText, {{shape, a}, {shape, b}});
  EXPECT_EQ(Diff({loss}, runner->Output(), 1e-6), "");
  runner->Backward({0.5});
  EXPECT_EQ(Diff(da, GetDiff(runner->bottom(0)), 1e-6), "");
  EXPECT_EQ(Diff(Scaled(da, -1), GetDiff(runner->bottom(1)), 1e-6), "");
}

TEST(L1LossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const auto runner =
      RunnerOf(kText, {{{3, 4}, Apart(12, 0.5, &rng)}, {{3, 4}, Uniform(12, -0.1, 0.1, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(L1LossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(kText, {{{1, 1}, {3}}, {{1, 1}, {0}}});
  EXPECT_EQ(runner->Output(), Array{3});
  Resize(runner.get(), {{{2, 2}, {1, 0, 0, 2}}, {{2, 2}, Array(4, 0.0)}});
  EXPECT_EQ(runner->Output(), Array{1.5});
}

TEST(L1LossLayer, RefusesBottomsThatDiffer) {
  EXPECT_CONTAINS(SetUpError(kText, {{2, 3}, {2, 2}}), "expected as many values as bottom[0]");
  EXPECT_CONTAINS(SetUpError(kText, {{2, 3}, {3, 2}}), "the 2 examples of bottom[0]");
}

TEST(L1LossLayer, IsALossOfBothBottoms) {
  const auto runner = RunnerOf(kText, {{{1}, {0}}, {{1}, {0}}});
  EXPECT_TRUE(runner->layer().AllowBackward(0));
  EXPECT_TRUE(runner->layer().AllowBackward(1));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
  EXPECT_TRUE(runner->layer().AutoTop());
}

}  // namespace
}  // namespace millrace::test
