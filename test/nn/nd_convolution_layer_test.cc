// Convolutions with other than two spatial axes, depthwise ones, and Im2col.
#include "base/simd.h"
#include "test/nn/layer_runner.h"
#include "test/nn/nd_convolution.h"

namespace millrace::test {
namespace {

// `shape` and `axis`: of the bottom, which holds the values of g.x_shape().
void ExpectMatch(const NdConvolution& g, const Shape& shape, int axis, const std::string& more,
                 Rng* rng) {
  const bool with_bias = rng->Below(2) == 0;
  const std::string text = StrCat("type: 'Convolution' convolution_param { ",
                                  g.Fields(g.outputs, with_bias), " axis: ", axis, more, " }");
  SCOPED_TRACE(text + " " + ShapeText(shape));
  const Array x = Uniform(ShapeCount(shape), -1, 1, rng);
  const Array weight = Uniform(ShapeCount(g.weight_shape()), -1, 1, rng);
  const Array bias = Uniform(g.outputs, -1, 1, rng);
  LayerRunner runner(text);
  runner.AddBottom(shape, x);
  runner.SetUp();
  const int channel_axis = axis < 0 ? axis + static_cast<int>(shape.size()) : axis;
  Shape expected(shape.begin(), shape.begin() + channel_axis);
  const Shape y_shape = g.y_shape();
  expected.insert(expected.end(), y_shape.begin() + 1, y_shape.end());
  ASSERT_EQ(runner.top().shape(), expected);
  ASSERT_EQ(runner.param(0).shape(), g.weight_shape());
  SetData(weight, &runner.param(0));
  if (with_bias) SetData(bias, &runner.param(1));

  const int64_t area = ShapeCount(g.out());
  Array y(ShapeCount(y_shape)), dx(x.size(), 0.0), dweight(weight.size(), 0.0);
  Array dbias(g.outputs, 0.0);
  const Array dy = Uniform(std::ssize(y), -1, 1, rng);
  for (int64_t i = 0; i < std::ssize(y); ++i) {
    const int64_t o = i / area % g.outputs;
    y[i] = with_bias ? bias[o] : 0;
    dbias[o] += dy[i];
  }
  g.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) {
    y[yi] += x[xi] * weight[wi];
    dx[xi] += dy[yi] * weight[wi];
    dweight[wi] += dy[yi] * x[xi];
  });
  EXPECT_EQ(Diff(y, runner.Output(), 2e-5), "");
  runner.Backward(dy);
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-5), "");
  EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 2e-5), "");
  if (with_bias) {
    EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 2e-5), "");
  }
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(NdConvolutionLayer, MatchesTheReferenceForEveryNumberOfSpatialAxes) {
  Rng rng(Seed(), {1});
  for (int axes = 0; axes <= 5; ++axes) {
    for (int trial = 0; trial < (axes < 4 ? 8 : 2); ++trial) {
      NdConvolution g = NdConvolution::Random(axes, &rng);
      if (axes == 0) {
        // The kernel is not used, but it must be given.
        ExpectMatch(g, g.x_shape(), 1, " kernel_size: 1", &rng);
      } else {
        ExpectMatch(g, g.x_shape(), 1, trial % 2 ? " force_nd_im2col: true" : "", &rng);
      }
    }
  }
}

TEST(NdConvolutionLayer, CountsAllAxesBeforeTheChannelsAsImages) {
  Rng rng(Seed(), {2});
  for (int axes : {1, 2, 3}) {
    NdConvolution g = NdConvolution::Random(axes, &rng);
    g.images = 6;
    Shape shape = g.x_shape();
    shape[0] = 3;
    shape.insert(shape.begin(), 2);
    ExpectMatch(g, shape, 2, "", &rng);
    ExpectMatch(g, shape, -axes - 1, "", &rng);
    shape = g.x_shape();
    g.images = 1;
    shape.erase(shape.begin());
    ExpectMatch(g, shape, 0, "", &rng);
  }
}

TEST(NdConvolutionLayer, KeepsPlainOrderForOtherRanks) {
  LayerRunner runner(
      "type: 'Convolution' convolution_param { num_output: 16 kernel_size: 1 axis: 2 }");
  runner.context().preferred_layout = Layout::kNhwc;
  runner.AddBottom({2, 3, 16, 5}, Array(480));
  runner.SetUp();
  EXPECT_EQ(runner.bottom().layout(), Layout::kPlain);
  EXPECT_EQ(runner.top().layout(), Layout::kPlain);
  EXPECT_EQ(runner.top().shape(), (Shape{2, 3, 16, 5}));
}

TEST(NdConvolutionLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {3});
  for (int axes : {1, 3, 4}) {
    NdConvolution g;
    g.channels = 2, g.outputs = 3;
    g.in = Shape(axes, 3), g.kernel = Shape(axes, 2), g.pad = Shape(axes, 0);
    g.stride = g.dilation = Shape(axes, 1);
    LayerRunner runner("type: 'Convolution' convolution_param { " + g.Fields(3, false) + " }");
    runner.AddBottom(g.x_shape(), Array(ShapeCount(g.x_shape())));
    runner.SetUp();
    runner.Backward(Array((runner.Forward(), runner.top().count())));
    g.images = 2;
    g.in[0] = 5;
    const Array x = Uniform(ShapeCount(g.x_shape()), -1, 1, &rng);
    const Array weight = Uniform(ShapeCount(g.weight_shape()), -1, 1, &rng);
    SetData(weight, &runner.param(0));
    runner.Reshape(g.x_shape(), x);
    ASSERT_EQ(runner.top().shape(), g.y_shape());
    Array y(ShapeCount(g.y_shape()), 0.0);
    g.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) { y[yi] += x[xi] * weight[wi]; });
    EXPECT_EQ(Diff(y, runner.Output(), 2e-5), "");
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(NdConvolutionLayer, RefusesABottomWithOtherChannels) {
  LayerRunner runner("type: 'Convolution' convolution_param { num_output: 2 kernel_size: 1 }");
  runner.AddBottom({1, 2, 3}, Array(6));
  runner.SetUp();
  EXPECT_CONTAINS(ErrorOf([&] { runner.Reshape({1, 3, 3}, Array(9)); }), "expected 2");
  EXPECT_CONTAINS(ErrorOf([&] { runner.Reshape({1, 2, 3, 1}, Array(6)); }), "expected 3");
}

TEST(DepthwiseConvolutionLayer, IsAConvolutionWithAGroupPerChannel) {
  Rng rng(Seed(), {4});
  for (const char* type : {"DepthwiseConvolution", "ConvolutionDepthwise"}) {
    for (const int64_t factor : {1, 2}) {
      NdConvolution g;
      g.images = 2, g.channels = g.groups = 16, g.outputs = 16 * factor;
      g.in = {7, 6}, g.kernel = {3, 3}, g.stride = {2, 1}, g.pad = {1, 1}, g.dilation = {1, 1};
      const std::string text =
          StrCat("type: '", type, "' convolution_param { num_output: ", g.outputs,
                 " kernel_size: 3 stride_h: 2 stride_w: 1 pad: 1 bias_term: false }");
      const Array x = Uniform(ShapeCount(g.x_shape()), -1, 1, &rng);
      const Array weight = Uniform(ShapeCount(g.weight_shape()), -1, 1, &rng);
      Array y(ShapeCount(g.y_shape()), 0.0);
      g.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) { y[yi] += x[xi] * weight[wi]; });
      ForEachLayout(text, g.x_shape(), x, [&](LayerRunner& runner) {
        ASSERT_EQ(runner.param(0).shape(), g.weight_shape());
        SetData(weight, &runner.param(0));
        EXPECT_EQ(Diff(y, runner.Output(), 2e-5), "");
        EXPECT_EQ(runner.CheckGradients(), "");
      });
    }
  }
}

// In plain order oneDNN needs many times as long.
TEST(DepthwiseConvolutionLayer, ComputesInTheOrderOfTheNet) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  for (const Layout order : {Layout::kNhwc, Layout::kBlocked8}) {
    LayerRunner runner(
        "type: 'ConvolutionDepthwise' convolution_param { num_output: 32 kernel_size: 3 pad: 1 }");
    runner.context().preferred_layout = order;
    runner.AddBottom({1, 32, 8, 8}, Array(32 * 64));
    runner.SetUp();
    EXPECT_EQ(runner.bottom().layout(), order);
    EXPECT_EQ(runner.top().layout(), order);
  }
}

TEST(DepthwiseConvolutionLayer, RefusesAnotherNumberOfGroups) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'DepthwiseConvolution' convolution_param { kernel_size: 1 " + param +
                       " }");
    runner.AddBottom({1, 4, 2, 2}, Array(16));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("num_output: 4 group: 2"), "expected the number of channels, 4");
  EXPECT_CONTAINS(complaint("num_output: 6"), "must divide");
}

TEST(Im2colLayer, UnfoldsWindows) {
  Rng rng(Seed(), {5});
  for (int axes = 0; axes <= 4; ++axes) {
    for (int trial = 0; trial < 6; ++trial) {
      NdConvolution g = NdConvolution::Random(axes, &rng);
      g.groups = 1, g.outputs = 1;
      const std::string text = "type: 'Im2col' convolution_param { " + g.Fields(7, true) + " }";
      SCOPED_TRACE(text);
      const Array x = Uniform(ShapeCount(g.x_shape()), -1, 1, &rng);
      LayerRunner runner(text);
      runner.AddBottom(g.x_shape(), x);
      runner.SetUp();
      const int64_t rows = g.channels * ShapeCount(g.kernel), windows = ShapeCount(g.out());
      Shape expected = g.y_shape();
      expected[1] = rows;
      ASSERT_EQ(runner.top().shape(), expected);
      // With one output a product's weight index is the row of the column.
      Array y(g.images * rows * windows, 0.0), dx(x.size(), 0.0);
      const Array dy = Uniform(std::ssize(y), -1, 1, &rng);
      g.ForEachProduct([&](int64_t yi, int64_t xi, int64_t wi) {
        const int64_t at = (yi / windows * rows + wi) * windows + yi % windows;
        y[at] = x[xi];
        dx[xi] += dy[at];
      });
      EXPECT_EQ(runner.Output(), y);
      runner.Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom())), "");
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(Im2colLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Im2col' convolution_param { kernel_size: 2 }");
  runner.AddBottom({1, 1, 2}, {1, 2});
  runner.SetUp();
  runner.Reshape({1, 1, 3}, {1, 2, 3});
  EXPECT_EQ(runner.top().shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(runner.Output(), (Array{1, 2, 2, 3}));
}

TEST(Im2colLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'Im2col' convolution_param { " + param + " }");
    runner.AddBottom({1, 2, 3, 3}, Array(18));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "kernel_size");
  EXPECT_CONTAINS(complaint("kernel_size: 4"), "does not fit");
  EXPECT_CONTAINS(complaint("kernel_size: 2 stride: 0"), "expected at least 1");
}

}  // namespace
}  // namespace millrace::test
