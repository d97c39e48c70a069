#include <cmath>
#include <optional>

#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Classes;

std::string AccuracyText(const std::string& param) {
  return "name: 'accuracy' type: 'Accuracy' accuracy_param { " + param + " }";
}

double Accuracy(const std::string& param, const Shape& shape, const Array& scores,
                const Array& labels) {
  LayerRunner runner(AccuracyText(param), caffe::TEST);
  runner.AddBottom(shape, scores);
  runner.AddBottom({static_cast<int64_t>(labels.size())}, labels);
  runner.SetUp();
  return runner.Output()[0];
}

TEST(AccuracyLayer, MatchesTheReference) {
  Rng rng(Seed(), {1});
  struct Case {
    Shape shape;
    int axis;
    Classes view;
  };
  for (const Case& c : {Case{{100, 10}, 1, {100, 10, 1}}, Case{{4, 6, 3, 5}, 1, {4, 6, 15}},
                        Case{{5, 4, 7}, -1, {20, 7, 1}}}) {
    for (int top_k : {1, 3, 5}) {
      for (std::optional<int> ignored : {std::optional<int>(), std::optional<int>(2)}) {
        for (bool ties : {false, true}) {
          SCOPED_TRACE(StrCat(ShapeText(c.shape), " top_k ", top_k, ties ? " ties" : ""));
          Array scores = Uniform(ShapeCount(c.shape), 0, 4, &rng);
          for (double& score : scores) score = ties ? std::floor(score) : score;
          std::vector<int> labels(c.view.positions());
          for (int& label : labels) label = static_cast<int>(rng.Below(c.view.classes - 1));
          LayerRunner runner(
              AccuracyText(StrCat("axis: ", c.axis, " top_k: ", top_k,
                                  ignored ? StrCat(" ignore_label: ", *ignored) : "")),
              caffe::TEST);
          runner.AddBottom(c.shape, scores);
          runner.AddBottom({c.view.positions()}, Array(labels.begin(), labels.end()));
          runner.SetUp(2);
          EXPECT_NEAR(runner.Output()[0], c.view.Accuracy(scores, labels, ignored, top_k), 1e-6);
          const Array per_class = GetData(runner.top(1));
          ASSERT_EQ(static_cast<int64_t>(per_class.size()), c.view.classes);
          for (int i = 0; i < c.view.classes; ++i) {
            EXPECT_NEAR(per_class[i], c.view.Accuracy(scores, labels, ignored, top_k, i), 1e-6);
          }
        }
      }
    }
  }
}

TEST(AccuracyLayer, CountsTiesAgainstTheLabel) {
  EXPECT_EQ(Accuracy("", {1, 3}, {5, 5, 1}, {0}), 0);
  EXPECT_EQ(Accuracy("", {1, 3}, {5, 5, 1}, {1}), 0);
  EXPECT_EQ(Accuracy("top_k: 2", {1, 3}, {5, 5, 1}, {0}), 1);
  EXPECT_EQ(Accuracy("top_k: 2", {1, 3}, {5, 5, 5}, {2}), 0);
  EXPECT_EQ(Accuracy("top_k: 3", {1, 3}, {5, 5, 5}, {2}), 1);
}

TEST(AccuracyLayer, ScoresThatAreNotNumbersAreNotRight) {
  const double nan = std::nan("");
  EXPECT_EQ(Accuracy("", {1, 2}, {nan, nan}, {0}), 0);
  EXPECT_EQ(Accuracy("", {1, 2}, {nan, 1}, {0}), 0);
  EXPECT_EQ(Accuracy("", {1, 2}, {nan, 1}, {1}), 0);
}

TEST(AccuracyLayer, IsZeroWhenNothingCounts) {
  EXPECT_EQ(Accuracy("ignore_label: 1", {2, 2}, {0, 1, 0, 1}, {1, 1}), 0);
}

TEST(AccuracyLayer, TruncatesLabelsBeforeItComparesThem) {
  EXPECT_EQ(Accuracy("ignore_label: 1", {2, 2}, {9, 1, 9, 1}, {0.5, 1.5}), 1);
}

TEST(AccuracyLayer, OfEachClassCountsItsOwnLabelsOnly) {
  LayerRunner runner(AccuracyText("ignore_label: 2"), caffe::TEST);
  runner.AddBottom({5, 3}, {9, 1, 1, 1, 9, 1, 9, 1, 1, 1, 9, 1, 1, 1, 9});
  runner.AddBottom({5}, {0, 0, 0, 1, 2});
  runner.SetUp(2);
  EXPECT_NEAR(runner.Output()[0], 0.75, 1e-6);
  EXPECT_EQ(Diff({2 / 3.0, 1, 0}, GetData(runner.top(1)), 1e-6), "");
}

TEST(AccuracyLayer, NamesALabelThatIsNoClass) {
  LayerRunner runner(AccuracyText(""), caffe::TEST);
  runner.AddBottom({2, 5}, Array(10, 0.0));
  runner.AddBottom({2}, {4, 5});
  runner.SetUp();
  EXPECT_EQ(ErrorOf([&] { runner.Forward(); }),
            "layer 'accuracy': label 5 at position 1 of the batch is not one of the 5 classes 0 "
            "to 4");
}

TEST(AccuracyLayer, RefusesWhatDoesNotFit) {
  const auto complaint = [](const std::string& param, int64_t labels) {
    LayerRunner runner(AccuracyText(param));
    runner.AddBottom({4, 3}, Array(12, 0.0));
    runner.AddBottom({labels}, Array(labels, 0.0));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("top_k: 4", 4), "4 given, but there are only 3 classes");
  EXPECT_CONTAINS(complaint("top_k: 0", 4), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("axis: 2", 4), "2 is not an axis");
  EXPECT_CONTAINS(complaint("", 5), "expected 4 values");
}

TEST(AccuracyLayer, HasNoGradient) {
  LayerRunner runner(AccuracyText(""));
  runner.AddBottom({2, 3}, Array(6, 0.0));
  runner.AddBottom({2}, {0, 1});
  runner.SetUp();
  EXPECT_FALSE(runner.layer().AllowBackward(0));
  EXPECT_FALSE(runner.layer().AllowBackward(1));
  EXPECT_EQ(runner.layer().DefaultLossWeight(0), 0);
  SetDiff(Array(6, 9.0), &runner.bottom());
  runner.layer().Backward(runner.tops(), {false, false}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom()), Array(6, 9.0));
  EXPECT_DEATH(runner.layer().Backward(runner.tops(), {true, false}, runner.bottoms()),
               "an accuracy has no gradient");
}

}  // namespace
}  // namespace millrace::test
