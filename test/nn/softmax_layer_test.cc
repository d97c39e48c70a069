#include <cmath>

#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

struct Case {
  Shape shape;
  int axis;
  reference::Classes view;
};

std::vector<Case> Cases() {
  return {{{64, 10}, 1, {64, 10, 1}},
          {{3, 1000}, -1, {3, 1000, 1}},
          {{2, 1}, 1, {2, 1, 1}},
          {{2, 5, 3, 4}, 1, {2, 5, 12}},
          {{2, 3, 9, 11}, 1, {2, 3, 99}},
          {{2, 3, 4, 5}, -2, {6, 4, 5}},
          {{2, 3, 4, 5}, 3, {24, 5, 1}},
          {{7, 3}, 0, {1, 7, 3}},
          {{2, 21, 1, 130}, 1, {2, 21, 130}}};
}

std::string Text(int axis) { return StrCat("type: 'Softmax' softmax_param { axis: ", axis, " }"); }

TEST(SoftmaxLayer, MatchesTheReferenceForwardAndBackward) {
  Rng rng(Seed(), {1});
  for (const Case& c : Cases()) {
    const Array x = Uniform(ShapeCount(c.shape), -6, 6, &rng);
    const Array dy = Uniform(ShapeCount(c.shape), -1, 1, &rng);
    ForEachLayout(Text(c.axis), c.shape, x, [&](LayerRunner& runner) {
      EXPECT_EQ(Diff(c.view.Softmax(x), runner.Output(), 1e-6), "");
      runner.Backward(dy);
      EXPECT_EQ(Diff(c.view.SoftmaxBackward(x, dy), GetDiff(runner.bottom()), 1e-6), "");
    });
  }
}

TEST(SoftmaxLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {2});
  for (const Case& c : Cases()) {
    if (c.view.classes > 30) continue;
    for (bool in_place : {false, true}) {
      SCOPED_TRACE(StrCat(ShapeText(c.shape), " axis ", c.axis, in_place ? " in place" : ""));
      LayerRunner runner(Text(c.axis));
      runner.AddBottom(c.shape, Uniform(ShapeCount(c.shape), -1, 1, &rng));
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(SoftmaxLayer, SurvivesScoresOfAnySize) {
  LayerRunner runner("type: 'Softmax'");
  runner.AddBottom({3, 3}, {1e30, -1e30, 0, 1000, 1000, 1000, -2000, -2001, -2e9});
  runner.SetUp();
  const double p = 1 / (1 + std::exp(-1.0));
  EXPECT_EQ(Diff({1, 0, 0, 1. / 3, 1. / 3, 1. / 3, p, 1 - p, 0}, runner.Output(), 1e-6), "");
}

TEST(SoftmaxLayer, RefusesAnAxisThatDoesNotExist) {
  for (int axis : {2, -3}) {
    LayerRunner runner(Text(axis));
    runner.AddBottom({2, 3}, Array(6, 0.0));
    EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }),
                    StrCat(axis, " is not an axis of a blob with 2 axes"));
  }
}

}  // namespace
}  // namespace millrace::test
