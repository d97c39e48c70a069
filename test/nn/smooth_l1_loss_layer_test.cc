#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string SmoothL1LossText(const std::string& param = "") {
  return "name: 'loss' type: 'SmoothL1Loss' smooth_l1_loss_param { " + param + " }";
}

TEST(SmoothL1LossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const int weights : {0, 1, 2}) {
    for (const double sigma : {1.0, 3.0}) {
      const Shape shape{4, 3, 2};
      const Array a = Uniform(24, -2, 2, &rng), b = Uniform(24, -2, 2, &rng);
      const Array inside = Uniform(24, 0, 2, &rng), outside = Uniform(24, 0, 2, &rng);
      double loss = 0;
      Array da(24);
      for (int i = 0; i < 24; ++i) {
        const double in = weights > 0 ? inside[i] : 1, out = weights > 1 ? outside[i] : 1;
        const double d = in * (a[i] - b[i]), squared = sigma * sigma;
        const bool small = std::abs(d) < 1 / squared;
        loss += out * (small ? squared * d * d / 2 : std::abs(d) - 0.5 / squared) / 4;
        da[i] = 0.5 * in * out * (small ? squared * d : (d > 0 ? 1 : -1)) / 4;
      }
      std::vector<Bottom> bottoms = {{shape, a}, {shape, b}};
      if (weights > 0) bottoms.push_back({shape, inside});
      if (weights > 1) bottoms.push_back({shape, outside});
      const auto runner = RunnerOf(SmoothL1LossText(StrCat("sigma: ", sigma)), bottoms);
      EXPECT_EQ(Diff({loss}, runner->Output(), 1e-6), "");
      runner->Backward({0.5});
      EXPECT_EQ(Diff(da, GetDiff(runner->bottom(0)), 1e-6), "");
      EXPECT_EQ(Diff(Scaled(da, -1), GetDiff(runner->bottom(1)), 1e-6), "");
    }
  }
}

TEST(SmoothL1LossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const Shape shape{3, 4};
  const auto runner = RunnerOf(SmoothL1LossText(), {{shape, Uniform(12, -2, 2, &rng)},
                                                    {shape, Uniform(12, -2, 2, &rng)},
                                                    {shape, Uniform(12, 0, 2, &rng)},
                                                    {shape, Uniform(12, 0, 2, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(SmoothL1LossLayer, GradientsAreRightWithInsideWeightsAlone) {
  Rng rng(Seed(), {3});
  const Shape shape{3, 4};
  const auto runner = RunnerOf(SmoothL1LossText(), {{shape, Uniform(12, -2, 2, &rng)},
                                                    {shape, Uniform(12, -2, 2, &rng)},
                                                    {shape, Uniform(12, 0, 2, &rng)}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

// ---- SmoothL1LossOHEM ----

std::string OhemText(const std::string& loss_param = "") {
  return "name: 'loss' type: 'SmoothL1LossOHEM' loss_param { " + loss_param + " }";
}

TEST(SmoothL1LossOhemLayer, DividesByItsNormalizerAndTellsTheLossOfEachPlace) {
  Rng rng(Seed(), {4});
  const Shape shape{2, 3, 2, 2};
  const std::pair<const char*, double> normalizers[] = {{"", 8},
                                                        {"normalization: FULL", 8},
                                                        {"normalization: BATCH_SIZE", 2},
                                                        {"normalize: false", 2},
                                                        {"normalization: NONE", 1},
                                                        {"normalization: PRE_FIXED "
                                                         "pre_fixed_normalizer: 128",
                                                         128}};
  for (const auto& [param, z] : normalizers) {
    for (const bool weighted : {false, true}) {
      const Array a = Uniform(24, -2, 2, &rng), b = Uniform(24, -2, 2, &rng);
      const Array w = Uniform(24, 0, 2, &rng);
      double loss = 0;
      Array places(8, 0.0), da(24);
      for (int i = 0; i < 24; ++i) {
        const double weight = weighted ? w[i] : 1, d = weight * (a[i] - b[i]);
        const double term = std::abs(d) < 1 ? d * d / 2 : std::abs(d) - 0.5;
        loss += term / z;
        places[i / 12 * 4 + i % 4] += term;
        da[i] = weight * (std::abs(d) < 1 ? d : d > 0 ? 1 : -1) / z;
      }
      std::vector<Bottom> bottoms = {{shape, a}, {shape, b}};
      if (weighted) bottoms.push_back({shape, w});
      const auto runner = RunnerOf(OhemText(param), bottoms, 2);
      EXPECT_EQ(Diff({loss}, runner->Output(), 1e-6), "") << param;
      EXPECT_EQ(runner->top(1).shape(), (Shape{2, 1, 2, 2}));
      EXPECT_EQ(Diff(places, GetData(runner->top(1)), 1e-6), "");
      runner->Backward({1});
      EXPECT_EQ(Diff(da, GetDiff(runner->bottom(0)), 1e-6), "");
      EXPECT_EQ(Diff(Scaled(da, -1), GetDiff(runner->bottom(1)), 1e-6), "");
    }
  }
}

TEST(SmoothL1LossOhemLayer, GradientsAreRight) {
  Rng rng(Seed(), {5});
  const Shape shape{3, 4};
  const auto runner = RunnerOf(OhemText(),
                               {{shape, Uniform(12, -2, 2, &rng)},
                                {shape, Uniform(12, -2, 2, &rng)},
                                {shape, Uniform(12, 0, 2, &rng)}},
                               2);
  EXPECT_EQ(runner->top(1).shape(), (Shape{3, 1, 1, 1}));
  GradientCheck check;
  check.top_scale = {1, 0};
  EXPECT_EQ(runner->CheckGradients(check), "");
  EXPECT_CONTAINS(SetUpError(OhemText(), {{3}, {3}}), "expected examples and channels");
}

TEST(SmoothL1LossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(SmoothL1LossText(), {{{1, 1}, {3}}, {{1, 1}, {0}}});
  EXPECT_EQ(runner->Output(), Array{2.5});
  Resize(runner.get(), {{{2, 2}, {0.5, 0, 0, 2}}, {{2, 2}, Array(4, 0.0)}});
  EXPECT_EQ(runner->Output(), Array{0.8125});
}

TEST(SmoothL1LossLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError(SmoothL1LossText(), {{2, 3}, {2, 3}, {2, 3}, {2}}),
                  "expected as many values as bottom[0]");
  EXPECT_CONTAINS(SetUpError(SmoothL1LossText(), {{2, 3}, {3, 2}}), "the 2 examples of bottom[0]");
  EXPECT_CONTAINS(SetUpError(SmoothL1LossText("sigma: 0"), {{2, 3}, {2, 3}}),
                  "a number other than 0");
}

TEST(SmoothL1LossLayer, HasNoGradientForItsWeights) {
  const auto runner =
      RunnerOf(SmoothL1LossText(), {{{1}, {0}}, {{1}, {0}}, {{1}, {0}}, {{1}, {0}}});
  EXPECT_TRUE(runner->layer().AllowBackward(0));
  EXPECT_TRUE(runner->layer().AllowBackward(1));
  EXPECT_FALSE(runner->layer().AllowBackward(2));
  EXPECT_FALSE(runner->layer().AllowBackward(3));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
}

}  // namespace
}  // namespace millrace::test
