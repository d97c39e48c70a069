#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string HingeLossText(const std::string& norm) {
  return "name: 'loss' type: 'HingeLoss' hinge_loss_param { " + norm + " }";
}

TEST(HingeLossLayer, MatchesTheFormulaInBothNorms) {
  Rng rng(Seed(), {1});
  for (const bool squared : {false, true}) {
    for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 2, 2}, Shape{40, 200}}) {
      SCOPED_TRACE(ShapeText(shape));
      const int64_t examples = shape[0], classes = ShapeCount(shape) / examples;
      const Array x = Uniform(ShapeCount(shape), -2, 2, &rng);
      const Array labels = RandomClasses(examples, static_cast<int>(classes), &rng);
      double loss = 0;
      Array dx(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const bool is_label = labels[i / classes] == static_cast<double>(i % classes);
        const double sign = is_label ? -1 : 1, margin = std::max(0.0, 1 + sign * x[i]);
        loss += squared ? margin * margin : margin;
        dx[i] = 0.6f * sign * (squared ? 2 * margin : margin > 0) / examples;
      }
      const auto runner =
          RunnerOf(HingeLossText(squared ? "norm: L2" : ""), {{shape, x}, {{examples}, labels}});
      EXPECT_EQ(Diff({loss / examples}, runner->Output(), 1e-5), "");
      runner->Backward({0.6f});
      EXPECT_EQ(Diff(dx, GetDiff(runner->bottom()), 1e-6), "");
    }
  }
}

TEST(HingeLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const char* norm : {"norm: L1", "norm: L2"}) {
    const auto runner = RunnerOf(HingeLossText(norm), {{{4, 5}, Uniform(20, -2, 2, &rng)},
                                                       {{4, 1}, RandomClasses(4, 5, &rng)}});
    EXPECT_EQ(runner->CheckGradients(), "") << norm;
  }
}

TEST(HingeLossLayer, HasNoGradientAtTheMargin) {
  const auto runner = RunnerOf(HingeLossText(""), {{{1, 3}, {1, -1, -0.5}}, {{1}, {0}}});
  EXPECT_EQ(runner->Output(), Array{0.5});
  runner->Backward({1});
  EXPECT_EQ(GetDiff(runner->bottom()), (Array{0, 0, 1}));
}

TEST(HingeLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(HingeLossText(""), {{{1, 2}, {0, 0}}, {{1}, {1}}});
  EXPECT_EQ(runner->Output(), Array{2});
  Resize(runner.get(), {{{2, 3}, {0, 0, 0, 1, 1, 1}}, {{2}, {2, 0}}});
  EXPECT_EQ(runner->Output(), Array{3.5});
}

TEST(HingeLossLayer, ScoresThatAreNotNumbersStayVisible) {
  const auto runner = RunnerOf(HingeLossText(""), {{{1, 2}, {std::nan(""), 0}}, {{1}, {1}}});
  EXPECT_TRUE(std::isnan(runner->Output()[0]));
}

TEST(HingeLossLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(HingeLossText(""), {{{2, 3}, Array(6, 0.0)}, {{2}, {0, 3}}});
  EXPECT_EQ(LabelError(runner.get()),
            "layer 'loss': label 3 at position 1 of the batch is not one of the 3 classes 0 to 2");
  SetData({0, 2}, &runner->bottom(1));  // the error ends with its cause
  runner->Forward();
  runner->layer().CheckForward(runner->bottoms());
}

TEST(HingeLossLayer, RefusesLabelsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(HingeLossText(""), {{4, 3}, {3}}),
                  "expected the 4 examples of bottom[0]");
  EXPECT_CONTAINS(SetUpError(HingeLossText(""), {{4, 3}, {4, 2}}),
                  "expected 4 labels: one for each example");
}

TEST(HingeLossLayer, IsALossOfItsScoresAlone) {
  ExpectLossOfBottomZero(RunnerOf(HingeLossText(""), {{{1, 2}, {0, 0}}, {{1}, {0}}})->layer());
}

}  // namespace
}  // namespace millrace::test
