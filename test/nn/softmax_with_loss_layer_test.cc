#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>

#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Classes;

std::vector<int> RandomLabels(const Classes& view, Rng* rng) {
  std::vector<int> labels(view.positions());
  for (int& label : labels) label = static_cast<int>(rng->Below(view.classes));
  return labels;
}

Array Floats(const std::vector<int>& labels) { return Array(labels.begin(), labels.end()); }

struct Norm {
  std::string text;
  double (*normalizer)(const Classes&, int valid);
};

double Full(const Classes& view, int) { return view.positions(); }
double Valid(const Classes&, int valid) { return std::max(valid, 1); }
double BatchSize(const Classes& view, int) { return view.outer; }
double One(const Classes&, int) { return 1; }
double Seven(const Classes&, int) { return 7; }

const Norm kNorms[] = {{"", Valid},
                       {"normalization: FULL", Full},
                       {"normalization: VALID", Valid},
                       {"normalization: BATCH_SIZE", BatchSize},
                       {"normalization: NONE", One},
                       {"normalization: PRE_FIXED pre_fixed_normalizer: 7", Seven},
                       {"normalize: true", Valid},
                       {"normalize: false", BatchSize},
                       {"normalize: false normalization: FULL", Full}};

struct SoftmaxWithLossCase {
  Shape shape, labels;
  int axis;
  Classes view;
};

const SoftmaxWithLossCase kCases[] = {{{64, 10}, {64}, 1, {64, 10, 1}},
                                      {{5, 1000}, {5, 1}, 1, {5, 1000, 1}},
                                      {{2, 5, 3, 4}, {2, 1, 3, 4}, 1, {2, 5, 12}},
                                      {{3, 4, 6}, {3, 4}, -1, {12, 6, 1}},
                                      {{3, 2, 9, 9}, {3, 9, 9}, 1, {3, 2, 81}}};

std::string Text(int axis, const std::string& loss_param) {
  return StrCat("name: 'loss' type: 'SoftmaxWithLoss' softmax_param { axis: ", axis,
                " } loss_param { ", loss_param, " }");
}

TEST(SoftmaxWithLossLayer, MatchesTheReferenceInEveryNormalization) {
  Rng rng(Seed(), {1});
  for (const SoftmaxWithLossCase& c : kCases) {
    for (const Norm& norm : kNorms) {
      for (std::optional<int> ignored : {std::optional<int>(), std::optional<int>(1)}) {
        const std::string param = norm.text + (ignored ? " ignore_label: 1" : "");
        SCOPED_TRACE(StrCat(ShapeText(c.shape), param));
        const Array x = Uniform(ShapeCount(c.shape), -4, 4, &rng);
        const std::vector<int> labels = RandomLabels(c.view, &rng);
        int valid = 0;
        for (int label : labels) valid += ignored != label;
        const double z = norm.normalizer(c.view, valid);
        LayerRunner runner(Text(c.axis, param));
        runner.AddBottom(c.shape, x);
        runner.AddBottom(c.labels, Floats(labels));
        runner.SetUp(2);
        const double loss = c.view.Loss(x, labels, ignored, z);
        EXPECT_EQ(Diff({loss}, runner.Output(), 1e-5), "");
        EXPECT_EQ(runner.top().shape(), Shape{});
        EXPECT_EQ(Diff(c.view.Softmax(x), GetData(runner.top(1)), 1e-6), "");
        const double weight = 0.5 + rng.Uniform();
        runner.Backward({weight});
        Array dx = c.view.LossBackward(x, labels, ignored, z);
        for (double& d : dx) d *= static_cast<float>(weight);
        EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
      }
    }
  }
}

// SegNet's weights of classes scale the terms of the sum, not the number that it is divided by.
TEST(SoftmaxWithLossLayer, WeighsClasses) {
  Rng rng(Seed(), {7});
  const Classes view{4, 3, 2};
  const double weights[] = {0.5, 0, 2.5};
  const Array x = Uniform(24, -2, 2, &rng);
  const std::vector<int> labels = {0, 1, 2, 2, 1, 0, 2, 0};
  LayerRunner runner(Text(1,
                          "weight_by_label_freqs: true class_weighting: 0.5 class_weighting: 0 "
                          "class_weighting: 2.5 ignore_label: 1"));
  runner.AddBottom({4, 3, 2}, x);
  runner.AddBottom({4, 2}, Floats(labels));
  runner.SetUp();
  const Array p = view.Softmax(x);
  double loss = 0;
  Array dx(24, 0.0);
  for (int i = 0; i < 8; ++i) {
    if (labels[i] == 1) continue;
    const int first = i / 2 * 6 + i % 2;
    loss -= weights[labels[i]] * std::log(p[first + 2 * labels[i]]) / 6;
    for (int c = 0; c < 3; ++c) {
      dx[first + 2 * c] = weights[labels[i]] * (p[first + 2 * c] - (c == labels[i])) / 6;
    }
  }
  EXPECT_EQ(Diff({loss}, runner.Output(), 1e-5), "");
  runner.Backward({1});
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(SoftmaxWithLossLayer, RefusesAnotherNumberOfClassWeights) {
  LayerRunner runner(Text(1, "weight_by_label_freqs: true class_weighting: 1"));
  runner.AddBottom({4, 3}, Array(12, 0.0));
  runner.AddBottom({4}, Array(4, 0.0));
  EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "1 given, expected 3, one per class");
}

TEST(SoftmaxWithLossOhemLayer, TellsTheLossOfEachPosition) {
  Rng rng(Seed(), {8});
  const Classes view{5, 4, 1};
  const Array x = Uniform(20, -2, 2, &rng);
  const std::vector<int> labels = {0, 3, 1, 2, 3};
  LayerRunner runner(
      "name: 'loss' type: 'SoftmaxWithLossOHEM' loss_param { ignore_label: 1 "
      "normalization: PRE_FIXED pre_fixed_normalizer: 20 }");
  runner.AddBottom({5, 4}, x);
  runner.AddBottom({5, 1}, Floats(labels));
  runner.SetUp(3);
  EXPECT_EQ(Diff({view.Loss(x, labels, 1, 20)}, runner.Output(), 1e-5), "");
  const Array p = view.Softmax(x);
  EXPECT_EQ(Diff(p, GetData(runner.top(1)), 1e-6), "");
  EXPECT_EQ(runner.top(2).shape(), (Shape{5, 1}));
  Array losses;
  for (int i = 0; i < 5; ++i)
    losses.push_back(labels[i] == 1 ? 0 : -std::log(p[i * 4 + labels[i]]));
  EXPECT_EQ(Diff(losses, GetData(runner.top(2)), 1e-5), "");
  GradientCheck check;
  check.top_scale = {1, 0, 0};
  EXPECT_EQ(runner.CheckGradients(check), "");
  EXPECT_EQ(runner.layer().arity().max_top, 3);
}

TEST(SoftmaxWithLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const SoftmaxWithLossCase& c : kCases) {
    if (c.view.classes > 100) continue;
    for (const Norm& norm : kNorms) {
      SCOPED_TRACE(StrCat(ShapeText(c.shape), norm.text));
      LayerRunner runner(Text(c.axis, norm.text + " ignore_label: 0"));
      runner.AddBottom(c.shape, Uniform(ShapeCount(c.shape), -1, 1, &rng));
      runner.AddBottom(c.labels, Floats(RandomLabels(c.view, &rng)));
      runner.SetUp(2);
      GradientCheck check;
      check.top_scale = {1, 0};  // the probabilities have no gradient
      EXPECT_EQ(runner.CheckGradients(check), "");
    }
  }
}

TEST(SoftmaxWithLossLayer, IsZeroWhenEveryLabelIsIgnored) {
  LayerRunner runner(Text(1, "ignore_label: 255"));
  runner.AddBottom({2, 3}, {1, 2, 3, 4, 5, 6});
  runner.AddBottom({2}, {255, 255});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), Array{0});
  runner.Backward({1});
  EXPECT_EQ(GetDiff(runner.bottom()), Array(6, 0.0));
}

TEST(SoftmaxWithLossLayer, TruncatesLabelsBeforeItComparesThem) {
  LayerRunner runner(Text(1, "ignore_label: 1"));
  runner.AddBottom({3, 2}, {0, 0, 5, 0, 5, 0});
  runner.AddBottom({3}, {0.5, 1, 1.5});
  runner.SetUp();
  EXPECT_NEAR(runner.Output()[0], std::log(2), 1e-6);
  runner.Backward({1});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{-0.5, 0.5, 0, 0, 0, 0}));
}

TEST(SoftmaxWithLossLayer, ImprobableLabelsCostAFiniteLoss) {
  LayerRunner runner(Text(1, ""));
  runner.AddBottom({1, 2}, {1000, -1000});
  runner.AddBottom({1}, {1});
  runner.SetUp();
  EXPECT_NEAR(runner.Output()[0], -std::log(FLT_MIN), 1e-4);
}

TEST(SoftmaxWithLossLayer, ScoresThatAreNotNumbersStayVisible) {
  LayerRunner runner(Text(1, ""));
  runner.AddBottom({2, 2}, {1, 2, std::nan(""), 1});
  runner.AddBottom({2}, {0, 0});
  runner.SetUp();
  EXPECT_TRUE(std::isnan(runner.Output()[0]));
}

std::string ForwardError(const Shape& shape, const Shape& label_shape, const Array& labels,
                         const std::string& loss_param = "") {
  LayerRunner runner(Text(1, loss_param));
  runner.AddBottom(shape, Array(ShapeCount(shape), 0.0));
  runner.AddBottom(label_shape, labels);
  runner.SetUp();
  return ErrorOf([&] { runner.Forward(); });
}

TEST(SoftmaxWithLossLayer, NamesALabelThatIsNoClass) {
  EXPECT_EQ(
      ForwardError({3, 10}, {3}, {0, 10, 3}),
      "layer 'loss': label 10 at position 1 of the batch is not one of the 10 classes 0 to 9");
  EXPECT_CONTAINS(ForwardError({3, 10}, {3}, {0, 1, -1}), "label -1 at position 2");
  EXPECT_CONTAINS(ForwardError({2, 3, 1, 2}, {2, 1, 1, 2}, {0, 1, 2, 7}),
                  "label 7 at position 1 of the batch (place 1 of 2)");
  EXPECT_CONTAINS(ForwardError({2, 3}, {2}, {255, 254}, "ignore_label: 255"),
                  "label 254 at position 1");
  EXPECT_CONTAINS(ForwardError({1, 3}, {1}, {std::nan("")}), "label nan at position 0");
  EXPECT_CONTAINS(ForwardError({1, 3}, {1}, {std::numeric_limits<float>::infinity()}),
                  "label inf at position 0");
}

TEST(SoftmaxWithLossLayer, RefusesLabelsThatDoNotFitTheScores) {
  LayerRunner runner(Text(1, ""));
  runner.AddBottom({4, 3}, Array(12, 0.0));
  runner.AddBottom({3}, Array(3, 0.0));
  EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "the labels have shape 3 (3), expected 4");
}

TEST(SoftmaxWithLossLayer, IsALossOfItsScoresAlone) {
  LayerRunner runner(Text(1, ""));
  runner.AddBottom({4, 3}, Array(12, 0.0));
  runner.AddBottom({4}, Array(4, 0.0));
  runner.SetUp();
  EXPECT_EQ(runner.layer().DefaultLossWeight(0), 1);
  EXPECT_EQ(runner.layer().DefaultLossWeight(1), 0);
  EXPECT_TRUE(runner.layer().AllowBackward(0));
  EXPECT_FALSE(runner.layer().AllowBackward(1));
  EXPECT_TRUE(runner.layer().AutoTop());
}

}  // namespace
}  // namespace millrace::test
