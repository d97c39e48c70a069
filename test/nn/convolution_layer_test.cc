#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Convolution;

std::string Text(const Convolution& g, bool bias) {
  return StrCat("type: 'Convolution' bottom: 'data' convolution_param { num_output: ", g.outputs,
                " group: ", g.groups, " kernel_h: ", g.kernel_h, " kernel_w: ", g.kernel_w,
                " pad_h: ", g.pad_h, " pad_w: ", g.pad_w, " stride_h: ", g.stride_h,
                " stride_w: ", g.stride_w, " dilation: ", g.dilation_h, " dilation: ", g.dilation_w,
                " bias_term: ", bias ? "true" : "false", " }");
}

template <typename T>
T Pick(std::initializer_list<T> choices, Rng* rng) {
  return *(choices.begin() + rng->Below(choices.size()));
}

Convolution RandomGeometry(Rng* rng) {
  Convolution g;
  g.groups = Pick<int64_t>({1, 1, 1, 2, 3}, rng);
  g.n = 1 + rng->Below(3);
  g.c = g.groups * Pick<int64_t>({1, 2, 3, 8, 16}, rng);
  g.outputs = g.groups * Pick<int64_t>({1, 2, 5, 8, 16}, rng);
  g.kernel_h = 1 + rng->Below(5), g.kernel_w = 1 + rng->Below(5);
  g.pad_h = rng->Below(4), g.pad_w = rng->Below(4);
  g.stride_h = 1 + rng->Below(3), g.stride_w = 1 + rng->Below(3);
  g.dilation_h = 1 + rng->Below(3) / 2, g.dilation_w = 1 + rng->Below(3) / 2;
  const auto size = [&](int64_t kernel, int64_t pad, int64_t dilation) {
    const int64_t least = dilation * (kernel - 1) + 1 - 2 * pad;
    return std::max<int64_t>(least, 1) + static_cast<int64_t>(rng->Below(9));
  };
  g.h = size(g.kernel_h, g.pad_h, g.dilation_h);
  g.w = size(g.kernel_w, g.pad_w, g.dilation_w);
  return g;
}

void SetWeights(const Array& weight, const Array& bias, LayerRunner* runner) {
  SetData(weight, &runner->param(0));
  if (!bias.empty()) SetData(bias, &runner->param(1));
}

void ExpectMatch(const Convolution& g, bool with_bias, Rng* rng) {
  const std::string text = Text(g, with_bias);
  SCOPED_TRACE(text);
  const Array x = Uniform(g.in_count(), -1, 1, rng);
  const Array weight = Uniform(g.weight_count(), -1, 1, rng);
  const Array bias = with_bias ? Uniform(g.outputs, -1, 1, rng) : Array();
  const Array dy = Uniform(g.out_count(), -1, 1, rng);
  Array dx, dweight, dbias;
  g.Backward(x, weight, dy, &dx, &dweight, &dbias);
  ForEachLayout(text, {g.n, g.c, g.h, g.w}, x, [&](LayerRunner& runner) {
    ASSERT_EQ(runner.top().shape(), (Shape{g.n, g.outputs, g.out_h(), g.out_w()}));
    ASSERT_EQ(runner.layer().params().size(), with_bias ? 2u : 1u);
    ASSERT_EQ(runner.param(0).shape(), (Shape{g.outputs, g.c / g.groups, g.kernel_h, g.kernel_w}));
    SetWeights(weight, bias, &runner);
    EXPECT_EQ(Diff(g.Forward(x, weight, bias), runner.Output(), 2e-5), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-5), "");
    EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 2e-5), "");
    if (with_bias) {
      EXPECT_EQ(runner.param(1).shape(), Shape{g.outputs});
      EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 2e-5), "");
    }
  });
}

TEST(ConvolutionLayer, MatchesTheReferenceInRandomGeometriesAndEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (int trial = 0; trial < 60; ++trial) ExpectMatch(RandomGeometry(&rng), trial % 4 != 0, &rng);
}

TEST(ConvolutionLayer, MatchesTheReferenceInTheGeometriesOfKnownNets) {
  Rng rng(Seed(), {2});
  Convolution lenet;  // conv1
  lenet.n = 2, lenet.h = lenet.w = 28, lenet.outputs = 20, lenet.kernel_h = lenet.kernel_w = 5;
  ExpectMatch(lenet, true, &rng);
  Convolution quick;  // conv1
  quick.n = 2, quick.c = 3, quick.h = quick.w = 32, quick.outputs = 32;
  quick.kernel_h = quick.kernel_w = 5, quick.pad_h = quick.pad_w = 2;
  ExpectMatch(quick, true, &rng);
  Convolution alexnet;  // conv1 with fewer outputs
  alexnet.c = 3, alexnet.h = alexnet.w = 67, alexnet.outputs = 16;
  alexnet.kernel_h = alexnet.kernel_w = 11, alexnet.stride_h = alexnet.stride_w = 4;
  ExpectMatch(alexnet, true, &rng);
  Convolution grouped;  // conv2, smaller
  grouped.c = 32, grouped.h = grouped.w = 9, grouped.outputs = 32, grouped.groups = 2;
  grouped.kernel_h = grouped.kernel_w = 5, grouped.pad_h = grouped.pad_w = 2;
  ExpectMatch(grouped, true, &rng);
  Convolution narrow;  // conv3 with fewer channels
  narrow.n = 2, narrow.c = 24, narrow.h = narrow.w = 13, narrow.outputs = 32;
  narrow.kernel_h = narrow.kernel_w = 3, narrow.pad_h = narrow.pad_w = 1;
  ExpectMatch(narrow, true, &rng);
  Convolution uneven = grouped;  // group sizes that fill no vector
  uneven.c = 24, uneven.outputs = 40;
  ExpectMatch(uneven, true, &rng);
  Convolution dilated = narrow;
  dilated.dilation_h = dilated.dilation_w = dilated.pad_h = dilated.pad_w = 2;
  ExpectMatch(dilated, true, &rng);
  Convolution depthwise;
  depthwise.c = depthwise.outputs = depthwise.groups = 16, depthwise.h = depthwise.w = 8;
  depthwise.kernel_h = depthwise.kernel_w = 3, depthwise.pad_h = depthwise.pad_w = 1;
  ExpectMatch(depthwise, false, &rng);
}

// Strided 1x1 convolutions with few channels have dedicated kernels.
TEST(ConvolutionLayer, MatchesTheReferenceInStridedOneByOneConvolutions) {
  Rng rng(Seed(), {7});
  for (int64_t channels : {2, 3, 4, 7, 8, 12, 16, 20}) {
    Convolution g;
    g.n = 2, g.c = channels, g.h = 64, g.w = 6, g.outputs = 8, g.stride_h = 1 + channels % 2;
    g.stride_w = 2;
    ExpectMatch(g, true, &rng);
  }
}

// One window results as long as the kernel exceeds the padded bottom by less than the stride, as in
// Caffe, whose division rounds towards zero.
TEST(ConvolutionLayer, AcceptsAWindowLargerThanTheBottom) {
  Rng rng(Seed(), {9});
  for (const int64_t channels : {1, 3, 16}) {
    for (const int64_t pad : {0, 1}) {
      Convolution g;
      g.n = 2, g.c = channels, g.outputs = 5, g.h = 3, g.w = 4;
      g.kernel_h = 5 + 2 * pad, g.kernel_w = 3, g.stride_h = 3, g.stride_w = 2, g.pad_h = pad;
      EXPECT_EQ(g.out_h(), 1);
      ExpectMatch(g, true, &rng);
      LayerRunner runner(Text(g, true));
      runner.AddBottom({g.n, g.c, g.h, g.w}, Uniform(g.in_count(), -1, 1, &rng));
      runner.SetUp();
      EXPECT_EQ(runner.CheckGradients(), "");
      // Another bottom may fit.
      g.h = 9;
      const Array x = Uniform(g.in_count(), -1, 1, &rng);
      runner.Reshape({g.n, g.c, g.h, g.w}, x);
      EXPECT_EQ(Diff(g.Forward(x, GetData(runner.param(0)), GetData(runner.param(1))),
                     runner.Output(), 2e-5),
                "");
    }
  }
}

TEST(ConvolutionLayer, GradientsAreRight) {
  Rng rng(Seed(), {3});
  for (int trial = 0; trial < 12; ++trial) {
    const Convolution g = RandomGeometry(&rng);
    const bool with_bias = trial % 3 != 0;
    SCOPED_TRACE(Text(g, with_bias));
    ForEachLayout(Text(g, with_bias), {g.n, g.c, g.h, g.w}, Uniform(g.in_count(), -1, 1, &rng),
                  [&](LayerRunner& runner) {
                    SetWeights(Uniform(g.weight_count(), -1, 1, &rng),
                               with_bias ? Uniform(g.outputs, -1, 1, &rng) : Array(), &runner);
                    EXPECT_EQ(runner.CheckGradients(), "");
                    GradientCheck blind;
                    blind.propagate_down = {false};
                    EXPECT_EQ(runner.CheckGradients(blind), "");
                  });
  }
}

TEST(ConvolutionLayer, SharesItsWeightsAmongSeveralBottoms) {
  Rng rng(Seed(), {4});
  Convolution g;
  g.n = 2, g.c = 3, g.h = 6, g.w = 5, g.outputs = 4, g.kernel_h = 3, g.kernel_w = 2;
  const Array x0 = Uniform(g.in_count(), -1, 1, &rng), x1 = Uniform(g.in_count(), -1, 1, &rng);
  const Array weight = Uniform(g.weight_count(), -1, 1, &rng), bias = Uniform(4, -1, 1, &rng);
  LayerRunner runner(Text(g, true));
  runner.AddBottom({2, 3, 6, 5}, x0);
  runner.AddBottom({2, 3, 6, 5}, x1);
  runner.SetUp(2);
  SetWeights(weight, bias, &runner);
  runner.Forward();
  EXPECT_EQ(Diff(g.Forward(x0, weight, bias), GetData(runner.top(0))), "");
  EXPECT_EQ(Diff(g.Forward(x1, weight, bias), GetData(runner.top(1))), "");
  // The layer sets has_gradient between its bottoms, so that their gradients add up.
  const Array dy0 = Uniform(g.out_count(), -1, 1, &rng), dy1 = Uniform(g.out_count(), -1, 1, &rng);
  SetDiff(dy1, &runner.top(1));
  runner.Backward(dy0);
  Array dx0, dw0, db0, dx1, dw1, db1;
  g.Backward(x0, weight, dy0, &dx0, &dw0, &db0);
  g.Backward(x1, weight, dy1, &dx1, &dw1, &db1);
  for (size_t i = 0; i < dw0.size(); ++i) dw0[i] += dw1[i];
  for (size_t i = 0; i < db0.size(); ++i) db0[i] += db1[i];
  EXPECT_EQ(Diff(dx0, GetDiff(runner.bottom(0)), 2e-5), "");
  EXPECT_EQ(Diff(dx1, GetDiff(runner.bottom(1)), 2e-5), "");
  EXPECT_EQ(Diff(dw0, GetDiff(runner.param(0)), 2e-5), "");
  EXPECT_EQ(Diff(db0, GetDiff(runner.param(1)), 2e-5), "");
}

TEST(ConvolutionLayer, SeesWeightsThatChangeBetweenPasses) {
  Rng rng(Seed(), {5});
  Convolution small, narrow;
  small.n = 1, small.c = 2, small.h = 5, small.w = 5, small.outputs = 3;
  small.kernel_h = small.kernel_w = 3;
  narrow.n = 1, narrow.c = 8, narrow.h = narrow.w = 9, narrow.outputs = 16;
  narrow.kernel_h = narrow.kernel_w = 3;
  for (const Convolution& g : {small, narrow}) {
    const Array x = Uniform(g.in_count(), -1, 1, &rng);
    ForEachLayout(Text(g, false), {g.n, g.c, g.h, g.w}, x, [&](LayerRunner& runner) {
      for (int pass = 0; pass < 3; ++pass) {
        const Array weight = Uniform(g.weight_count(), -1, 1, &rng);
        SetWeights(weight, {}, &runner);
        EXPECT_EQ(Diff(g.Forward(x, weight, {}), runner.Output()), "");
        Array dx, dweight, dbias;
        const Array dy = Uniform(g.out_count(), -1, 1, &rng);
        g.Backward(x, weight, dy, &dx, &dweight, &dbias);
        runner.Backward(dy);
        EXPECT_EQ(Diff(dx, GetDiff(runner.bottom())), "");
      }
    });
  }
}

TEST(ConvolutionLayer, FollowsABottomOfAnotherBatchSize) {
  Rng rng(Seed(), {6});
  Convolution g;
  g.n = 2, g.c = 3, g.h = 7, g.w = 6, g.outputs = 5, g.kernel_h = g.kernel_w = 3;
  const Array weight = Uniform(g.weight_count(), -1, 1, &rng);
  LayerRunner runner(Text(g, false));
  runner.AddBottom({g.n, g.c, g.h, g.w}, Uniform(g.in_count(), -1, 1, &rng));
  runner.SetUp();
  SetWeights(weight, {}, &runner);
  runner.Backward(Uniform((runner.Forward(), g.out_count()), -1, 1, &rng));
  for (int64_t n : {5, 1}) {
    g.n = n;
    const Array x = Uniform(g.in_count(), -1, 1, &rng), dy = Uniform(g.out_count(), -1, 1, &rng);
    runner.Reshape({g.n, g.c, g.h, g.w}, x);
    EXPECT_EQ(Diff(g.Forward(x, weight, {}), runner.Output()), "");
    Array dx, dweight, dbias;
    g.Backward(x, weight, dy, &dx, &dweight, &dbias);
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom())), "");
  }
}

TEST(ConvolutionLayer, TakesSquareSettingsAsOneNumberOrTwo) {
  const auto top_shape = [](const std::string& param) {
    LayerRunner runner("type: 'Convolution' bottom: 'x' convolution_param { num_output: 2 " +
                       param + " }");
    runner.AddBottom({1, 1, 10, 12}, Array(120, 0.0));
    runner.SetUp();
    return runner.top().shape();
  };
  EXPECT_EQ(top_shape("kernel_size: 3"), (Shape{1, 2, 8, 10}));
  EXPECT_EQ(top_shape("kernel_size: 3 kernel_size: 5 pad: 1 pad: 2"), (Shape{1, 2, 10, 12}));
  EXPECT_EQ(top_shape("kernel_size: 3 stride: 2"), (Shape{1, 2, 4, 5}));
  EXPECT_EQ(top_shape("kernel_size: 3 dilation: 2"), (Shape{1, 2, 6, 8}));
}

TEST(ConvolutionLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape = {1, 4, 5, 5}) {
    LayerRunner runner("type: 'Convolution' bottom: 'x' convolution_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape), 0.0));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("kernel_size: 3"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2"), "kernel_size");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3"), "not both");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 stride: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 dilation: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 group: 3"), "divide");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 group: 0"), "divide");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 6"), "does not fit");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3", {4}), "the bottom has 1 axes");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 axis: 4"), "the bottom has 4 axes");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_h: 3 kernel_w: 3", {1, 4, 5}), "expected 2");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 stride_h: 1", {1, 4, 5, 5, 5}),
                  "has 3 spatial axes");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 pad: 1 pad: 1", {1, 4, 5, 5, 5}),
                  "expected one, or 3");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 1", {1, 4, 2, 2, 2, 2, 2, 2, 2}),
                  "expected at most 6");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 3 weight_filler { type: 'x' }"),
                  "there is no filler 'x'");
}

}  // namespace
}  // namespace millrace::test
