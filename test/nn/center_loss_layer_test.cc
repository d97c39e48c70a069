#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string CenterLossText(const std::string& param) {
  return "name: 'loss' type: 'CenterLoss' center_loss_param { " + param + " }";
}

// Three classes of two features.
std::unique_ptr<LayerRunner> Example() {
  auto runner = RunnerOf(CenterLossText("num_output: 3"),
                         {{{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{4}, {0, 2, 0, 2}}});
  SetData({1, 1, 9, 9, 5, 5}, &runner->param(0));
  return runner;
}

TEST(CenterLossLayer, IsTheDistanceFromTheCenters) {
  const auto runner = Example();
  // Distances: (0, 1), (-2, -1), (4, 5), (2, 3).
  EXPECT_EQ(runner->Output(), Array{(1 + 5 + 41 + 13) / 8.0});
  runner->Backward({2});
  EXPECT_EQ(GetDiff(runner->bottom()), (Array{0, 0.5, -1, -0.5, 2, 2.5, 1, 1.5}));
}

TEST(CenterLossLayer, MovesEachCenterByTheMeanOfItsExamples) {
  const auto runner = Example();
  runner->Forward();
  runner->Backward({2});
  const Array expected = {-4 / 3.0, -6 / 3.0, 0, 0, 0, -2 / 3.0};
  EXPECT_EQ(Diff(expected, GetDiff(runner->param(0)), 1e-6), "");
  *runner->layer().params()[0].has_gradient = true;  // the next gradient is added
  runner->Backward({2});
  EXPECT_EQ(Diff(Scaled(expected, 2), GetDiff(runner->param(0)), 1e-6), "");
  runner->layer().params()[0].wanted = false;
  SetDiff(Array(6, 7.0), &runner->param(0));
  runner->Backward({2});
  EXPECT_EQ(GetDiff(runner->param(0)), Array(6, 7.0));
}

TEST(CenterLossLayer, DeclaresItsCenters) {
  const auto runner = RunnerOf(CenterLossText("num_output: 3 axis: 2 center_filler { value: 0.5 }"),
                               {{{4, 1, 2, 3}, Array(24, 0.0)}, {{4, 1}, Array(4, 0.0)}});
  EXPECT_EQ(runner->param(0).shape(), (Shape{3, 6}));
  EXPECT_EQ(runner->layer().params()[0].filler.value(), 0.5);
}

TEST(CenterLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = Example();
  runner->Forward();
  Resize(runner.get(), {{{1, 2}, {9, 7}}, {{1}, {1}}});
  EXPECT_EQ(runner->Output(), Array{2});
}

TEST(CenterLossLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(CenterLossText("num_output: 2"), {{{2, 1}, {0, 0}}, {{2}, {1, 2}}});
  EXPECT_CONTAINS(LabelError(runner.get()), "label 2 at position 1 of the batch");
}

TEST(CenterLossLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError(CenterLossText(""), {{2, 3}, {2}}), "0 given, expected at least 1");
  EXPECT_CONTAINS(SetUpError(CenterLossText("num_output: 2 axis: 2"), {{2, 3}, {2}}),
                  "2 is not an axis");
  EXPECT_CONTAINS(SetUpError(CenterLossText("num_output: 2 axis: 2"), {{2, 3, 2}, {2}}),
                  "expected 2 values per example");
  EXPECT_CONTAINS(SetUpError(CenterLossText("num_output: 2"), {{2, 3}, {2, 3}}),
                  "one for each example");
  EXPECT_CONTAINS(
      SetUpError(CenterLossText("num_output: 2 center_filler { type: 'x' }"), {{2, 3}, {2}}),
      "there is no filler 'x'");
}

TEST(CenterLossLayer, IsALossOfItsFeaturesAlone) { ExpectLossOfBottomZero(Example()->layer()); }

}  // namespace
}  // namespace millrace::test
