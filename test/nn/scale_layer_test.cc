#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

using reference::Channels;

// What a layer makes of `x`, and the gradients.
struct Expected {
  Array y, dx, dscale, dbias;
};

Expected ScaleReference(const Channels& of, const Array& x, const Array& scale, const Array& bias,
                        const Array& dy) {
  Expected expected;
  for (int64_t i = 0; i < of.count(); ++i) {
    expected.y.push_back(x[i] * scale[of.Of(i)] + (bias.empty() ? 0 : bias[of.Of(i)]));
    expected.dx.push_back(dy[i] * scale[of.Of(i)]);
  }
  expected.dscale = of.Sums([&](int64_t i) { return dy[i] * x[i]; });
  expected.dbias = of.Sums([&](int64_t i) { return dy[i]; });
  return expected;
}

struct ScaleCase {
  const char* param;
  Shape shape;
  Channels of;
  size_t layouts;  // that the layer accepts
};

// Counts of channels and places below and above all block sizes of the loops.
const ScaleCase kCases[] = {
    {"", {2, 16, 3, 5}, {2, 16, 15}, 4},
    {"", {3, 5, 2, 2}, {3, 5, 4}, 2},
    {"", {2, 72, 4, 3}, {2, 72, 12}, 3},
    {"", {1, 16, 40, 60}, {1, 16, 2400}, 4},
    {"axis: -3", {2, 16, 3, 5}, {2, 16, 15}, 4},
    {"", {4, 7}, {4, 7, 1}, 1},
    {"", {2, 130}, {2, 130, 1}, 1},
    {"axis: 0", {4, 7}, {1, 4, 7}, 1},
    {"axis: 1 num_axes: 2", {2, 16, 3, 5}, {2, 48, 5}, 1},
    {"axis: 1 num_axes: -1", {2, 4, 3, 5}, {2, 60, 1}, 1},
    {"axis: 0 num_axes: -1", {2, 4, 3}, {1, 24, 1}, 1},
    {"axis: 2", {2, 16, 3, 5}, {32, 3, 5}, 1},
    {"axis: -1", {2, 4, 3, 5}, {24, 5, 1}, 1},
    {"num_axes: 0", {2, 16, 3, 5}, {1, 1, 480}, 4},
};

TEST(ScaleLayer, MatchesTheReferenceForAllAxesAndMemoryOrders) {
  Rng rng(Seed(), {1});
  for (const ScaleCase& each : kCases) {
    for (const bool has_bias : {false, true}) {
      const std::string text = StrCat("type: 'Scale' scale_param { ", each.param,
                                      " bias_term: ", has_bias ? "true" : "false", " }");
      SCOPED_TRACE(text);
      const Array x = Uniform(ShapeCount(each.shape), -2, 2, &rng);
      const Array dy = Uniform(ShapeCount(each.shape), -1, 1, &rng);
      const Array scale = Uniform(each.of.channels, -2, 2, &rng);
      const Array bias = has_bias ? Uniform(each.of.channels, -1, 1, &rng) : Array{};
      const Expected expected = ScaleReference(each.of, x, scale, bias, dy);
      const auto taken = ForEachLayout(text, each.shape, x, [&](LayerRunner& runner) {
        ASSERT_EQ(runner.layer().params().size(), has_bias ? 2u : 1u);
        SetData(scale, &runner.param(0));
        if (has_bias) SetData(bias, &runner.param(1));
        EXPECT_EQ(Diff(expected.y, runner.Output(), 1e-5), "");
        runner.Backward(dy);
        EXPECT_EQ(Diff(expected.dx, GetDiff(runner.bottom()), 1e-5), "");
        EXPECT_EQ(Diff(expected.dscale, GetDiff(runner.param(0)), 1e-5), "");
        if (has_bias) {
          EXPECT_EQ(Diff(expected.dbias, GetDiff(runner.param(1)), 1e-5), "");
        }
      });
      EXPECT_EQ(taken.size(), each.layouts);
    }
  }
}

TEST(ScaleLayer, TakesTheScaleFromASecondBottom) {
  Rng rng(Seed(), {2});
  const struct {
    const char* param;
    Shape shape, scale;
    Channels of;
  } cases[] = {
      {"", {2, 3, 4, 5}, {3}, {2, 3, 20}},
      {"axis: 0", {2, 3, 4, 5}, {2, 3}, {1, 6, 20}},
      {"axis: 0", {2, 3, 4, 5}, {2, 3, 4, 5}, {1, 120, 1}},
      {"axis: -2", {2, 3, 4, 5}, {4, 5}, {6, 20, 1}},
      {"axis: 3", {2, 3, 4, 5}, {}, {1, 1, 120}},
  };
  for (const auto& each : cases) {
    for (const bool has_bias : {false, true}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(StrCat(each.param, " ", ShapeText(each.scale), has_bias, in_place));
        LayerRunner runner(StrCat("type: 'Scale' bottom: 'x' bottom: 's' scale_param { ",
                                  each.param, " bias_term: ", has_bias ? "true" : "false", " }"));
        const Array x = Uniform(120, -2, 2, &rng), dy = Uniform(120, -1, 1, &rng);
        const Array scale = Uniform(each.of.channels, -2, 2, &rng);
        runner.AddBottom(each.shape, x, Layout::kNhwc);  // the layer asks for plain order
        runner.AddBottom(each.scale, scale);
        in_place ? runner.SetUpInPlace() : runner.SetUp();
        ASSERT_EQ(runner.layer().params().size(), has_bias ? 1u : 0u);
        const Array bias = has_bias ? Uniform(each.of.channels, -1, 1, &rng) : Array{};
        if (has_bias) {
          EXPECT_EQ(runner.param(0).shape(), each.scale);
          SetData(bias, &runner.param(0));
        }
        const Expected expected = ScaleReference(each.of, x, scale, bias, dy);
        EXPECT_EQ(Diff(expected.y, runner.Output(), 1e-6), "");
        runner.Backward(dy);
        EXPECT_EQ(Diff(expected.dx, GetDiff(runner.bottom()), 1e-6), "");
        EXPECT_EQ(Diff(expected.dscale, GetDiff(runner.bottom(1)), 1e-5), "");
        if (has_bias) {
          EXPECT_EQ(Diff(expected.dbias, GetDiff(runner.param(0)), 1e-5), "");
        }
      }
    }
  }
}

TEST(ScaleLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {3});
  for (const bool in_place : {false, true}) {
    for (const Layout order : {Layout::kPlain, Layout::kBlocked8}) {
      SCOPED_TRACE(StrCat(in_place, LayoutName(order)));
      LayerRunner runner(
          "type: 'Scale' scale_param { filler { type: 'gaussian' std: 1 } bias_term: true }");
      runner.AddBottom({2, 8, 2, 3}, Uniform(96, -2, 2, &rng), order);
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      SetData(Uniform(8, 0.5, 2, &rng), &runner.param(0));
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
  LayerRunner two("type: 'Scale' bottom: 'x' bottom: 's' scale_param { bias_term: true }");
  two.AddBottom({2, 4, 3}, Uniform(24, -2, 2, &rng));
  two.AddBottom({4}, Uniform(4, -2, 2, &rng));
  two.SetUp();
  EXPECT_EQ(two.CheckGradients(), "");
}

TEST(ScaleLayer, ComputesOnlyTheBiassGradientIfTheScaleIsFixed) {
  for (const bool in_place : {false, true}) {
    LayerRunner runner("type: 'Scale' scale_param { bias_term: true }");
    runner.AddBottom({1, 2, 2}, {1, 2, 3, 4});
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    runner.layer().params()[0].wanted = false;
    SetData({2, 3}, &runner.param(0));
    SetDiff({7, 7}, &runner.param(0));
    EXPECT_EQ(Diff({2, 4, 9, 12}, runner.Output()), "");
    runner.Backward({1, 2, 3, 4});
    EXPECT_EQ(Diff({2, 4, 9, 12}, GetDiff(runner.bottom())), "");
    EXPECT_EQ(Diff({7, 7}, GetDiff(runner.param(0))), "");
    EXPECT_EQ(Diff({3, 7}, GetDiff(runner.param(1))), "");
  }
}

TEST(ScaleLayer, IsTheIdentityByDefault) {
  LayerRunner runner("type: 'Scale'");
  runner.AddBottom({2, 3}, {1, 2, 3, 4, 5, 6});
  runner.SetUp();
  EXPECT_EQ(runner.layer().params()[0].filler.type(), "constant");
  EXPECT_EQ(runner.layer().params()[0].filler.value(), 1);
}

TEST(ScaleLayer, FollowsABottomThatGrows) {
  LayerRunner runner("type: 'Scale'");
  runner.AddBottom({1, 3, 1}, {1, 2, 3});
  runner.SetUpInPlace();
  SetData({1, 2, 3}, &runner.param(0));
  runner.Reshape({2, 3, 2}, {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2});
  EXPECT_EQ(Diff({1, 1, 2, 2, 3, 3, 2, 2, 4, 4, 6, 6}, runner.Output()), "");
  runner.Backward(Array(12, 1));
  EXPECT_EQ(Diff({6, 6, 6}, GetDiff(runner.param(0))), "");
}

TEST(ScaleLayer, RefusesAxesAndShapesThatDoNotFit) {
  const auto error = [](const std::string& param, const Shape& scale = {}) {
    LayerRunner runner(StrCat("type: 'Scale' bottom: 'x' ", scale.empty() ? "" : "bottom: 's' ",
                              "scale_param { ", param, " }"));
    runner.AddBottom({2, 3, 4}, Array(24, 1));
    if (!scale.empty()) runner.AddBottom(scale, Array(ShapeCount(scale), 1));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_EQ(error("axis: 3"), "3 given, but the bottom has 3 axes");
  EXPECT_EQ(error("axis: -4"), "-4 given, but the bottom has 3 axes");
  EXPECT_EQ(error("num_axes: 3"),
            "3 given, expected -1 to 2: the bottom has so many axes from axis 1 on");
  EXPECT_EQ(error("num_axes: -2"),
            "-2 given, expected -1 to 2: the bottom has so many axes from axis 1 on");
  EXPECT_EQ(error("", {4}), "2 3 4 (24) does not match 4 (4) from axis 1 on");
  EXPECT_EQ(error("axis: 2", {4, 1}), "2 3 4 (24) does not match 4 1 (4) from axis 2 on");
  LayerRunner runner("type: 'Scale'");
  runner.AddBottom({2, 3}, Array(6, 1));
  runner.SetUp();
  EXPECT_EQ(ErrorOf([&] {
              runner.Reshape({2, 4}, Array(8, 1));
            }),
            "2 4 (8) does not match 3 (3) from axis 1 on");
}

}  // namespace
}  // namespace millrace::test
