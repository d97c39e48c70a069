#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

using reference::Channels;

TEST(BiasLayer, MatchesTheReferenceForAllAxesAndMemoryOrders) {
  Rng rng(Seed(), {1});
  const struct {
    const char* param;
    Shape shape;
    Channels of;
    size_t layouts;
  } cases[] = {
      {"", {2, 16, 3, 5}, {2, 16, 15}, 4},
      {"", {4, 7}, {4, 7, 1}, 1},
      {"axis: 0", {4, 7}, {1, 4, 7}, 1},
      {"axis: 1 num_axes: 2", {2, 3, 4, 5}, {2, 12, 5}, 1},
      {"num_axes: -1", {2, 3, 4}, {2, 12, 1}, 1},
      {"num_axes: 0", {2, 16, 3, 5}, {1, 1, 480}, 4},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.param);
    const Array x = Uniform(ShapeCount(each.shape), -2, 2, &rng);
    const Array dy = Uniform(ShapeCount(each.shape), -1, 1, &rng);
    const Array bias = Uniform(each.of.channels, -2, 2, &rng);
    Array y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] += bias[each.of.Of(static_cast<int64_t>(i))];
    const auto taken = ForEachLayout(
        StrCat("type: 'Bias' bias_param { ", each.param, " }"), each.shape, x,
        [&](LayerRunner& runner) {
          SetData(bias, &runner.param(0));
          EXPECT_EQ(Diff(y, runner.Output(), 1e-6), "");
          runner.Backward(dy);
          EXPECT_EQ(Diff(dy, GetDiff(runner.bottom())), "");
          EXPECT_EQ(
              Diff(each.of.Sums([&](int64_t i) { return dy[i]; }), GetDiff(runner.param(0)), 1e-5),
              "");
        });
    EXPECT_EQ(taken.size(), each.layouts);
  }
}

TEST(BiasLayer, TakesTheBiasFromASecondBottom) {
  for (const bool in_place : {false, true}) {
    LayerRunner runner("type: 'Bias' bottom: 'x' bottom: 'b' bias_param { axis: 0 }");
    runner.AddBottom({2, 3}, {1, 2, 3, 4, 5, 6});
    runner.AddBottom({2}, {10, 20});
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    EXPECT_TRUE(runner.layer().params().empty());
    EXPECT_EQ(Diff({11, 12, 13, 24, 25, 26}, runner.Output()), "");
    runner.Backward({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(Diff({1, 2, 3, 4, 5, 6}, GetDiff(runner.bottom())), "");
    EXPECT_EQ(Diff({6, 15}, GetDiff(runner.bottom(1))), "");
  }
}

TEST(BiasLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {2});
  for (const bool in_place : {false, true}) {
    LayerRunner runner("type: 'Bias'");
    runner.AddBottom({3, 5, 2}, Uniform(30, -2, 2, &rng));
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(BiasLayer, FollowsABottomThatGrows) {
  LayerRunner runner("type: 'Bias'");
  runner.AddBottom({1, 3}, {1, 2, 3});
  runner.SetUp();
  SetData({1, 2, 3}, &runner.param(0));
  runner.Reshape({2, 3}, {1, 1, 1, 2, 2, 2});
  EXPECT_EQ(Diff({2, 3, 4, 3, 4, 5}, runner.Output()), "");
}

TEST(BiasLayer, RefusesAxesThatDoNotFit) {
  LayerRunner runner("type: 'Bias' bias_param { axis: 2 }");
  runner.AddBottom({2, 3}, Array(6, 1));
  EXPECT_EQ(ErrorOf([&] { runner.SetUp(); }), "2 given, but the bottom has 2 axes");
}

}  // namespace
}  // namespace millrace::test
