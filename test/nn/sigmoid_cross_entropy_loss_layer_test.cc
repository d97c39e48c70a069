#include <cmath>
#include <limits>
#include <optional>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string SigmoidCrossEntropyLossText(const std::string& loss_param) {
  return "name: 'loss' type: 'SigmoidCrossEntropyLoss' loss_param { " + loss_param + " }";
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Norm {
  std::string text;
  double (*normalizer)(double examples, double count, double valid);
};

double BatchSize(double examples, double, double) { return examples; }
double Full(double, double count, double) { return count; }
double Valid(double, double, double valid) { return std::max(valid, 1.0); }
double One(double, double, double) { return 1; }

const Norm kNorms[] = {{"", BatchSize},
                       {"normalization: FULL", Full},
                       {"normalization: VALID", Valid},
                       {"normalization: BATCH_SIZE", BatchSize},
                       {"normalization: NONE", One},
                       {"normalize: true", Valid},
                       {"normalize: false", BatchSize},
                       {"normalize: true normalization: NONE", One}};

TEST(SigmoidCrossEntropyLossLayer, MatchesTheFormulaInEveryNormalization) {
  Rng rng(Seed(), {1});
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 4, 5}, Shape{7}}) {
    for (const Norm& norm : kNorms) {
      for (std::optional<int> ignored : {std::optional<int>(), std::optional<int>(-1)}) {
        const std::string param = norm.text + (ignored ? " ignore_label: -1" : "");
        SCOPED_TRACE(ShapeText(shape) + param);
        const int64_t count = ShapeCount(shape);
        const Array x = Uniform(count, -4, 4, &rng);
        Array t = Uniform(count, 0, 1, &rng), dx(count);
        if (ignored) t[count / 2] = -1;
        double loss = 0, valid = 0;
        for (int64_t i = 0; i < count; ++i) {
          if (ignored && t[i] == -1) continue;
          const double s = Sigmoid(x[i]);
          loss -= t[i] * std::log(s) + (1 - t[i]) * std::log(1 - s);
          dx[i] = 0.5 * (s - t[i]);
          ++valid;
        }
        const double z = norm.normalizer(shape[0], count, valid);
        const auto runner = RunnerOf(SigmoidCrossEntropyLossText(param), {{shape, x}, {shape, t}});
        EXPECT_EQ(Diff({loss / z}, runner->Output(), 1e-5), "");
        runner->Backward({0.5});
        EXPECT_EQ(Diff(Scaled(dx, 1 / z), GetDiff(runner->bottom()), 1e-6), "");
      }
    }
  }
}

TEST(SigmoidCrossEntropyLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const auto runner = RunnerOf(
      SigmoidCrossEntropyLossText("ignore_label: 2 normalization: VALID"),
      {{{3, 4}, Uniform(12, -2, 2, &rng)}, {{3, 4}, {0, 1, 2, 0.5, 1, 2, 0.2, 0, 1, 1, 2.5, 0}}});
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(SigmoidCrossEntropyLossLayer, StaysFiniteForLargeScores) {
  const auto runner = RunnerOf(SigmoidCrossEntropyLossText(""),
                               {{{1, 4}, {500, -500, 500, -500}}, {{1, 4}, {1, 0, 0, 1}}});
  EXPECT_EQ(runner->Output(), Array{1000});
  runner->Backward({1});
  EXPECT_EQ(GetDiff(runner->bottom()), (Array{0, 0, 1, -1}));
}

TEST(SigmoidCrossEntropyLossLayer, IsZeroWhenAllTargetsAreIgnored) {
  const auto runner = RunnerOf(SigmoidCrossEntropyLossText("ignore_label: 0 normalization: VALID"),
                               {{{1, 2}, {3, -2}}, {{1, 2}, {0, 0.5}}});  // 0.5 truncates to 0
  EXPECT_EQ(runner->Output(), Array{0});
  runner->Backward({1});
  EXPECT_EQ(GetDiff(runner->bottom()), (Array{0, 0}));
}

TEST(SigmoidCrossEntropyLossLayer, ScoresThatAreNotNumbersStayVisible) {
  const auto runner =
      RunnerOf(SigmoidCrossEntropyLossText(""), {{{1, 2}, {std::nan(""), 0}}, {{1, 2}, {1, 0}}});
  EXPECT_TRUE(std::isnan(runner->Output()[0]));
}

TEST(SigmoidCrossEntropyLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner =
      RunnerOf(SigmoidCrossEntropyLossText(""), {{{1, 2}, {0, 0}}, {{1, 2}, {1, 0}}});
  EXPECT_NEAR(runner->Output()[0], 2 * std::log(2), 1e-6);
  Resize(runner.get(), {{{3, 1}, {0, 0, 0}}, {{3, 1}, {1, 0, 1}}});
  EXPECT_NEAR(runner->Output()[0], std::log(2), 1e-6);
}

TEST(SigmoidCrossEntropyLossLayer, RefusesTargetsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(SigmoidCrossEntropyLossText(""), {{4, 3}, {2, 6}}),
                  "expected the 4 examples of bottom[0]");
  EXPECT_CONTAINS(SetUpError(SigmoidCrossEntropyLossText(""), {{4, 3}, {4}}),
                  "expected as many values as bottom[0]");
}

TEST(SigmoidCrossEntropyLossLayer, IsALossOfItsScoresAlone) {
  ExpectLossOfBottomZero(
      RunnerOf(SigmoidCrossEntropyLossText(""), {{{1, 1}, {0}}, {{1, 1}, {0}}})->layer());
}

}  // namespace
}  // namespace millrace::test
