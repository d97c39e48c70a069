#include <algorithm>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string Text(const std::string& param = "") {
  return "name: 'loss' type: 'TripletLoss' triplet_loss_param { " + param + " }";
}

TEST(TripletLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  constexpr int kTriplets = 30, kFeatures = 4;
  const Shape shape{kTriplets, 2, 2};
  const Array a = Uniform(120, -1, 1, &rng), p = Uniform(120, -1, 1, &rng);
  const Array n = Uniform(120, -1, 1, &rng);
  double loss = 0;
  Array da(120, 0.0), dp(120, 0.0), dn(120, 0.0);
  int met = 0;
  for (int t = 0; t < kTriplets; ++t) {
    double missing = 0.4;
    for (int i = t * kFeatures; i < (t + 1) * kFeatures; ++i) {
      missing += (a[i] - p[i]) * (a[i] - p[i]) - (a[i] - n[i]) * (a[i] - n[i]);
    }
    loss += std::max(missing, 0.0) / (2 * kTriplets);
    met += missing <= 0;
    if (missing <= 0) continue;
    for (int i = t * kFeatures; i < (t + 1) * kFeatures; ++i) {
      da[i] = 3 * (n[i] - p[i]) / kTriplets;
      dp[i] = 3 * (p[i] - a[i]) / kTriplets;
      dn[i] = 3 * (a[i] - n[i]) / kTriplets;
    }
  }
  for (const char* param : {"margin: 0.4", "alpha: 0.4"}) {
    const auto runner = RunnerOf(Text(param), {{shape, a}, {shape, p}, {shape, n}});
    EXPECT_EQ(Diff({loss}, runner->Output(), 1e-5), "");
    runner->Backward({3});
    EXPECT_EQ(Diff(da, GetDiff(runner->bottom(0)), 1e-5), "");
    EXPECT_EQ(Diff(dp, GetDiff(runner->bottom(1)), 1e-5), "");
    EXPECT_EQ(Diff(dn, GetDiff(runner->bottom(2)), 1e-5), "");
  }
  EXPECT_GT(met, 0);
  EXPECT_LT(met, kTriplets);
}

TEST(TripletLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const Shape shape{6, 3};
  const auto runner = RunnerOf(Text("margin: 0.5"), {{shape, Uniform(18, -1, 1, &rng)},
                                                     {shape, Uniform(18, -1, 1, &rng)},
                                                     {shape, Uniform(18, -1, 1, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(TripletLossLayer, HasAMarginOfOneByDefault) {
  const auto runner = RunnerOf(Text(), {{{1, 1}, {2}}, {{1, 1}, {2}}, {{1, 1}, {2.5}}});
  EXPECT_EQ(runner->Output(), Array{0.375});
  Resize(runner.get(), {{{2, 1}, {0, 0}}, {{2, 1}, {0, 1}}, {{2, 1}, {1, 0}}});
  EXPECT_EQ(runner->Output(), Array{0.5});
}

TEST(TripletLossLayer, RefusesBadSettings) {
  const std::vector<Shape> shapes = {{2, 3}, {2, 3}, {2, 3}};
  EXPECT_CONTAINS(SetUpError(Text("margin: 1 alpha: 1"), shapes), "given beside margin");
  EXPECT_CONTAINS(SetUpError(Text("margin: nan"), shapes), "expected a finite number");
  EXPECT_CONTAINS(SetUpError(Text("alpha: inf"), shapes), "expected a finite number");
  EXPECT_CONTAINS(SetUpError(Text(), {{2, 3}, {2, 3}, {2, 2}}), "as many values as bottom[0]");
  EXPECT_CONTAINS(SetUpError(Text(), {{2, 3}, {3, 2}, {2, 3}}), "the 2 examples of bottom[0]");
}

TEST(TripletLossLayer, IsALossOfAllItsBottoms) {
  const auto runner = RunnerOf(Text(), {{{1}, {0}}, {{1}, {0}}, {{1}, {0}}});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(runner->layer().AllowBackward(i));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
  EXPECT_TRUE(runner->layer().AutoTop());
}

}  // namespace
}  // namespace millrace::test
