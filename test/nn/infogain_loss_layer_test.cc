#include <cmath>
#include <optional>

#include "proto/parse.h"
#include "test/nn/loss_support.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Classes;

std::string InfogainLossText(const std::string& param, const std::string& loss_param = "") {
  return "name: 'loss' type: 'InfogainLoss' infogain_loss_param { " + param + " } loss_param { " +
         loss_param + " }";
}

struct Case {
  Shape shape;
  int axis;
  Classes view;
};

const Case kCases[] = {
    {{6, 4}, 1, {6, 4, 1}}, {{2, 3, 2, 2}, 1, {2, 3, 4}}, {{3, 2, 5}, -1, {6, 5, 1}}};

// The loss, not yet divided by Z, and its gradient.
double Sum(const Classes& view, const Array& x, const Array& labels, const Array& matrix,
           std::optional<int> ignored, Array* dx) {
  const Array p = view.Softmax(x);
  dx->assign(x.size(), 0);
  double sum = 0;
  for (int64_t n = 0; n < view.positions(); ++n) {
    const auto label = static_cast<int64_t>(labels[n]);
    if (ignored && label == *ignored) continue;
    double row = 0;
    for (int64_t c = 0; c < view.classes; ++c) row += matrix[label * view.classes + c];
    for (int64_t c = 0; c < view.classes; ++c) {
      const double gain = matrix[label * view.classes + c], q = p[view.Index(n, c)];
      sum -= gain * std::log(q);
      (*dx)[view.Index(n, c)] = q * row - gain;
    }
  }
  return sum;
}

TEST(InfogainLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const Case& c : kCases) {
    for (std::optional<int> ignored : {std::optional<int>(), std::optional<int>(1)}) {
      SCOPED_TRACE(ShapeText(c.shape));
      const int64_t classes = c.view.classes, positions = c.view.positions();
      const Array x = Uniform(c.view.count(), -2, 2, &rng);
      const Array matrix = Uniform(classes * classes, 0, 1, &rng);
      Array labels = RandomClasses(positions, static_cast<int>(classes), &rng);
      labels[0] = 1;
      Array dx;
      const double sum = Sum(c.view, x, labels, matrix, ignored, &dx);
      double valid = 0;
      for (const double label : labels) valid += !ignored || label != *ignored;
      const double z = std::max(1.0, valid);
      const auto runner =
          RunnerOf(InfogainLossText(StrCat("axis: ", c.axis), ignored ? "ignore_label: 1" : ""),
                   {{c.shape, x}, {{positions}, labels}, {{1, 1, classes, classes}, matrix}}, 2);
      EXPECT_EQ(Diff({sum / z}, runner->Output(), 1e-5), "");
      EXPECT_EQ(Diff(c.view.Softmax(x), GetData(runner->top(1)), 1e-6), "");
      runner->Backward({0.5});
      EXPECT_EQ(Diff(Scaled(dx, 0.5 / z), GetDiff(runner->bottom()), 1e-5), "");
    }
  }
}

TEST(InfogainLossLayer, DividesAsNormalizationSays) {
  const Bottom x{{2, 2, 3}, Array(12, 0.0)}, labels{{2, 3}, {0, 1, 1, 0, 0, 1}};
  const Bottom identity{{2, 2}, {1, 0, 0, 1}};
  const auto loss = [&](const std::string& param) {
    return RunnerOf(InfogainLossText("", param), {x, labels, identity})->Output()[0] / std::log(2);
  };
  EXPECT_NEAR(loss(""), 1, 1e-6);
  EXPECT_NEAR(loss("normalization: NONE"), 6, 1e-5);
  EXPECT_NEAR(loss("normalization: BATCH_SIZE"), 3, 1e-5);
  EXPECT_NEAR(loss("normalization: VALID ignore_label: 0"), 1, 1e-5);
  EXPECT_NEAR(loss("normalization: FULL ignore_label: 0"), 0.5, 1e-5);
}

TEST(InfogainLossLayer, WithTheIdentityIsTheSoftmaxLoss) {
  Rng rng(Seed(), {2});
  const Bottom x{{5, 3}, Uniform(15, -2, 2, &rng)}, labels{{5}, RandomClasses(5, 3, &rng)};
  const auto infogain =
      RunnerOf(InfogainLossText(""), {x, labels, {{3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}}});
  const auto softmax = RunnerOf("name: 'loss' type: 'SoftmaxWithLoss'", {x, labels});
  EXPECT_EQ(Diff(softmax->Output(), infogain->Output(), 1e-6), "");
  for (const auto& runner : {&infogain, &softmax}) (*runner)->Backward({1});
  EXPECT_EQ(Diff(GetDiff(softmax->bottom()), GetDiff(infogain->bottom()), 1e-6), "");
}

TEST(InfogainLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {3});
  for (const Case& c : kCases) {
    const int64_t classes = c.view.classes, positions = c.view.positions();
    const auto runner =
        RunnerOf(InfogainLossText(StrCat("axis: ", c.axis), "ignore_label: 0"),
                 {{c.shape, Uniform(c.view.count(), -1, 1, &rng)},
                  {{positions}, RandomClasses(positions, static_cast<int>(classes), &rng)},
                  {{classes, classes}, Uniform(classes * classes, 0.1, 1, &rng)}},
                 2);
    GradientCheck check;
    check.top_scale = {1, 0};  // the probabilities have no gradient
    EXPECT_EQ(runner->CheckGradients(check), "");
  }
}

TEST(InfogainLossLayer, ReadsTheMatrixFromAFile) {
  const TempDir folder;
  const std::string path = folder / "matrix.binaryproto";
  caffe::BlobProto proto;
  for (const int dim : {1, 1, 2, 2}) proto.mutable_shape()->add_dim(dim);
  for (const float value : {1.0f, 0.5f, 0.25f, 2.0f}) proto.add_data(value);
  SaveBinary(path, proto);
  const std::string source = "source: '" + path + "'";
  const Bottom x{{2, 2}, {1, 2, 3, 5}}, labels{{2}, {1, 0}};
  const auto from_file = RunnerOf(InfogainLossText(source), {x, labels});
  const auto from_bottom = RunnerOf(InfogainLossText(""), {x, labels, {{2, 2}, {1, 0.5, 0.25, 2}}});
  EXPECT_EQ(from_file->Output(), from_bottom->Output());
  for (const auto& runner : {&from_file, &from_bottom}) (*runner)->Backward({1});
  EXPECT_EQ(GetDiff(from_file->bottom()), GetDiff(from_bottom->bottom()));
  EXPECT_CONTAINS(SetUpError(InfogainLossText(source), {{2, 3}, {2}}),
                  "expected a matrix of 3 x 3 values");
}

TEST(InfogainLossLayer, FollowsBottomsOfAnotherShape) {
  const Bottom identity{{2, 2}, {1, 0, 0, 1}};
  const auto runner = RunnerOf(InfogainLossText(""), {{{1, 2}, {0, 0}}, {{1}, {0}}, identity});
  EXPECT_NEAR(runner->Output()[0], std::log(2), 1e-6);
  Resize(runner.get(), {{{2, 3}, Array(6, 0.0)}, {{2}, {0, 2}}, {{3, 3}, Array(9, 1.0)}});
  EXPECT_NEAR(runner->Output()[0], 3 * std::log(3), 1e-5);
}

TEST(InfogainLossLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(InfogainLossText(""),
                               {{{2, 2}, Array(4, 0.0)}, {{2}, {0, 2}}, {{2, 2}, Array(4, 1.0)}});
  EXPECT_CONTAINS(LabelError(runner.get()), "label 2 at position 1 of the batch");
}

TEST(InfogainLossLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError(InfogainLossText(""), {{2, 2}, {2}}),
                  "a third bottom with the matrix");
  EXPECT_CONTAINS(SetUpError(InfogainLossText("source: '/no/such/file'"), {{2, 2}, {2}}),
                  "/no/such/file");
  EXPECT_CONTAINS(SetUpError(InfogainLossText("", "normalize: true"), {{2, 2}, {2}, {2, 2}}),
                  "expected loss_param.normalization instead");
  EXPECT_CONTAINS(SetUpError(InfogainLossText(""), {{2, 3}, {2}, {2, 2}}),
                  "expected a matrix of 3 x 3 values");
  EXPECT_CONTAINS(SetUpError(InfogainLossText("axis: 2"), {{2, 3}, {2}, {3, 3}}),
                  "2 is not an axis");
  EXPECT_CONTAINS(SetUpError(InfogainLossText(""), {{2, 3}, {3}, {3, 3}}), "expected 2 values");
}

TEST(InfogainLossLayer, IsALossOfItsScoresAlone) {
  const auto runner = RunnerOf(InfogainLossText(""), {{{1, 1}, {0}}, {{1}, {0}}, {{1}, {1}}});
  ExpectLossOfBottomZero(runner->layer());
  EXPECT_FALSE(runner->layer().AllowBackward(2));
}

}  // namespace
}  // namespace millrace::test
