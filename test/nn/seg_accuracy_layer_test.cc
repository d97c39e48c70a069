#include <cmath>
#include <limits>
#include <set>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string SegAccuracyText(const std::string& param) {
  return "name: 'acc' type: 'SegAccuracy' seg_accuracy_param { " + param + " }";
}

// matrix[label][prediction], counted in plain loops.
using Confusion = std::vector<std::vector<double>>;

void Count(int64_t images, int64_t classes, int64_t area, const Array& scores, const Array& labels,
           const std::set<int>& ignored, Confusion* matrix) {
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t j = 0; j < area; ++j) {
      const int label = static_cast<int>(labels[n * area + j]);
      if (ignored.count(label) > 0) continue;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        if (scores[(n * classes + c) * area + j] >= scores[(n * classes + best) * area + j]) {
          best = c;
        }
      }
      ++(*matrix)[label][best];
    }
  }
}

Array Results(const Confusion& matrix) {
  const size_t classes = matrix.size();
  double all = 0, right = 0, recall = 0, present = 0, overlap = 0;
  for (size_t c = 0; c < classes; ++c) {
    double row = 0, column = 0;
    for (size_t k = 0; k < classes; ++k) row += matrix[c][k], column += matrix[k][c];
    all += row;
    right += matrix[c][c];
    if (row > 0) ++present, recall += matrix[c][c] / row;
    const double either = row + column - matrix[c][c];
    overlap += either == 0 ? 1 : matrix[c][c] / either;
  }
  return {all > 0 ? right / all : 0, present > 0 ? recall / present : 0,
          overlap / static_cast<double>(classes)};
}

TEST(SegAccuracyLayer, MatchesTheConfusionMatrix) {
  Rng rng(Seed(), {1});
  for (const bool ties : {false, true}) {
    for (const std::set<int>& ignored : {std::set<int>{}, {255}, {255, 2}}) {
      std::string param;
      for (const int label : ignored) param += StrCat(" ignore_label: ", label);
      SCOPED_TRACE(StrCat(param, ties ? " ties" : ""));
      Array scores = Uniform(3 * 5 * 28, 0, 3, &rng);
      for (double& score : scores) score = ties ? std::floor(score) : score;
      Array labels = RandomClasses(3 * 28, 4, &rng);  // class 4 never occurs
      for (double& label : labels) {
        if (!ignored.empty() && rng.Below(5) == 0) label = 255;
      }
      const auto runner =
          RunnerOf(SegAccuracyText(param), {{{3, 5, 4, 7}, scores}, {{3, 1, 4, 7}, labels}});
      Confusion matrix(5, std::vector<double>(5));
      Count(3, 5, 28, scores, labels, ignored, &matrix);
      EXPECT_EQ(Diff(Results(matrix), runner->Output(), 1e-6), "");
      EXPECT_EQ(runner->top().shape(), (Shape{1, 1, 1, 3}));
      EXPECT_EQ(Diff(Results(matrix), runner->Output(), 1e-6), "");  // counted anew
    }
  }
}

TEST(SegAccuracyLayer, CountsAllBatchesTogetherWithoutReset) {
  Rng rng(Seed(), {2});
  Confusion matrix(3, std::vector<double>(3));
  const auto runner = RunnerOf(SegAccuracyText("reset: false ignore_label: 7"),
                               {{{1, 3, 1, 1}, {1, 0, 0}}, {{1, 1, 1, 1}, {7}}});
  EXPECT_EQ(Diff({0, 0, 1}, runner->Output(), 1e-6), "");  // nothing is counted
  for (int64_t width : {6, 9, 4}) {
    const Array scores = Uniform(2 * 3 * 5 * width, -1, 1, &rng);
    const Array labels = RandomClasses(2 * 5 * width, 3, &rng);
    Resize(runner.get(), {{{2, 3, 5, width}, scores}, {{2, 1, 5, width}, labels}});
    Count(2, 3, 5 * width, scores, labels, {}, &matrix);
    EXPECT_EQ(Diff(Results(matrix), runner->Output(), 1e-6), "") << width;
  }
}

TEST(SegAccuracyLayer, IsAsComputedByHand) {
  // Labels 0 0 1 1, predictions 0 1 1 1; class 2 is neither.
  const auto runner = RunnerOf(
      SegAccuracyText("metric: PixelIOU"),
      {{{1, 3, 1, 4}, {9, 1, 1, 1, 2, 5, 5, 5, 0, 0, 0, 0}}, {{1, 1, 1, 4}, {0, 0, 1, 1}}});
  EXPECT_EQ(Diff({3 / 4.0, (1 / 2.0 + 1) / 2, (1 / 2.0 + 2 / 3.0 + 1) / 3}, runner->Output(), 1e-6),
            "");
}

TEST(SegAccuracyLayer, APositionWithoutNumbersIsWrong) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto runner =
      RunnerOf(SegAccuracyText(""), {{{3, 2}, {nan, nan, nan, 1, -inf, nan}}, {{3}, {0, 1, 0}}});
  EXPECT_EQ(Diff({2 / 3.0, 3 / 4.0, 3 / 4.0}, runner->Output(), 1e-6), "");
}

TEST(SegAccuracyLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(SegAccuracyText("ignore_label: 255"),
                               {{{1, 2, 1, 3}, Array(6)}, {{1, 1, 1, 3}, {255, 1, 2}}});
  EXPECT_EQ(LabelError(runner.get()),
            "layer 'acc': label 2 at position 0 of the batch (place 2 of 3) is not one of the 2 "
            "classes 0 to 1");
}

TEST(SegAccuracyLayer, HasNoGradient) {
  const auto runner = RunnerOf(SegAccuracyText(""), {{{1, 2}, {0, 1}}, {{1}, {0}}});
  EXPECT_FALSE(runner->layer().AllowBackward(0));
  EXPECT_FALSE(runner->layer().AllowBackward(1));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 0);
}

TEST(SegAccuracyLayer, RefusesBottomsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(SegAccuracyText(""), {{2, 3, 4, 4}, {2, 1, 4, 5}}),
                  "expected 32 values");
  EXPECT_CONTAINS(SetUpError(SegAccuracyText(""), {{2}, {2}}),
                  "1 is not an axis of a blob with 1 axes");
  const auto runner = RunnerOf(SegAccuracyText(""), {{{1, 2}, {0, 1}}, {{1}, {0}}});
  EXPECT_CONTAINS(ErrorOf([&] {
                    runner->Reshape({1, 3}, {0, 1, 2});
                  }),
                  "has 3 classes, expected 2, as when the net was built");
}

}  // namespace
}  // namespace millrace::test
