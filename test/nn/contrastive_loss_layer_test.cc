#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string Text(const std::string& param) {
  return "name: 'loss' type: 'ContrastiveLoss' contrastive_loss_param { " + param + " }";
}

double Loss(const Array& a, const Array& b, const Array& labels, double margin, bool legacy) {
  const size_t pairs = labels.size(), channels = a.size() / pairs;
  double sum = 0;
  for (size_t n = 0; n < pairs; ++n) {
    double squares = 0;
    for (size_t c = n * channels; c < (n + 1) * channels; ++c) {
      squares += (a[c] - b[c]) * (a[c] - b[c]);
    }
    const double missing = std::max(0.0, margin - std::sqrt(squares));
    const double apart = legacy ? std::max(0.0, margin - squares) : missing * missing;
    sum += labels[n] != 0 ? squares : apart;
  }
  return sum / 2 / static_cast<double>(pairs);
}

TEST(ContrastiveLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const bool legacy : {false, true}) {
    for (const double margin : {1.0, 2.5}) {
      const Array a = Uniform(24, -1, 1, &rng), b = Uniform(24, -1, 1, &rng);
      const Array labels = {0, 1, 0, 1, 0, 0, 2, 0};
      const auto runner =
          RunnerOf(Text(StrCat("margin: ", margin, " legacy_version: ", legacy ? "true" : "false")),
                   {{{8, 3}, a}, {{8, 3, 1, 1}, b}, {{8}, labels}});
      EXPECT_EQ(Diff({Loss(a, b, labels, margin, legacy)}, runner->Output(), 1e-6), "");
    }
  }
}

TEST(ContrastiveLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const char* legacy : {"", " legacy_version: true"}) {
    SCOPED_TRACE(legacy);
    const auto runner =
        RunnerOf(Text(StrCat("margin: 4", legacy)), {{{5, 3}, Uniform(15, -1, 1, &rng)},
                                                     {{5, 3}, Uniform(15, -1, 1, &rng)},
                                                     {{5}, {1, 0, 0, 1, 0}}});
    EXPECT_EQ(runner->CheckGradients(), "");
    GradientCheck first;
    first.propagate_down = {true, false, false};
    EXPECT_EQ(runner->CheckGradients(first), "");
  }
}

TEST(ContrastiveLossLayer, EqualVectorsOfADissimilarPairHaveNoDirection) {
  const auto runner = RunnerOf(Text(""), {{{1, 2}, {3, 4}}, {{1, 2}, {3, 4}}, {{1}, {0}}});
  EXPECT_EQ(runner->Output(), Array{0.5});
  runner->Backward({1});
  EXPECT_EQ(GetDiff(runner->bottom(0)), (Array{0, 0}));
}

TEST(ContrastiveLossLayer, TruncatesLabels) {
  // 0.9 becomes 0: a dissimilar pair beyond the margin.
  const auto runner = RunnerOf(Text(""), {{{1, 1}, {5}}, {{1, 1}, {0}}, {{1}, {0.9f}}});
  EXPECT_EQ(runner->Output(), Array{0});
  runner->Backward({1});
  EXPECT_EQ(GetDiff(runner->bottom(0)), Array{0});
  EXPECT_EQ(GetDiff(runner->bottom(1)), Array{0});
}

TEST(ContrastiveLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(Text(""), {{{1, 1}, {2}}, {{1, 1}, {0}}, {{1}, {1}}});
  EXPECT_EQ(runner->Output(), Array{2});
  Resize(runner.get(), {{{2, 2}, {1, 1, 0, 0}}, {{2, 2}, {0, 0, 0, 2}}, {{2}, {1, 1}}});
  EXPECT_EQ(runner->Output(), Array{1.5});
}

TEST(ContrastiveLossLayer, RefusesBottomsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(Text(""), {{4, 3}, {4, 2}, {4}}), "as many values as bottom[0]");
  EXPECT_CONTAINS(SetUpError(Text(""), {{4, 3}, {3, 3}, {4}}), "the 4 examples of bottom[0]");
  EXPECT_CONTAINS(SetUpError(Text(""), {{4, 3, 2}, {4, 3, 2}, {4}}), "one vector per example");
  EXPECT_CONTAINS(SetUpError(Text(""), {{4, 3}, {4, 3}, {4, 3}}), "one for each pair");
  EXPECT_CONTAINS(SetUpError(Text(""), {{4, 3}, {4, 3}, {3}}), "the 4 examples of bottom[0]");
}

TEST(ContrastiveLossLayer, HasGradientsForBothVectors) {
  const auto runner = RunnerOf(Text(""), {{{1, 1}, {0}}, {{1, 1}, {0}}, {{1}, {0}}});
  EXPECT_TRUE(runner->layer().AllowBackward(0));
  EXPECT_TRUE(runner->layer().AllowBackward(1));
  EXPECT_FALSE(runner->layer().AllowBackward(2));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
}

}  // namespace
}  // namespace millrace::test
