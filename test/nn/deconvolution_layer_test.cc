#include "test/nn/layer_runner.h"
#include "test/nn/nd_convolution.h"

namespace millrace::test {
namespace {

// The layer reads the y of the convolution `g` and computes its x.
std::string DeconvolutionText(const NdConvolution& g, bool bias) {
  return "type: 'Deconvolution' convolution_param { " + g.Fields(g.channels, bias) + " }";
}

// Makes the input of the convolution no larger than what its windows reach.
void Shrink(NdConvolution* g) {
  const Shape out = g->out();
  for (size_t a = 0; a < out.size(); ++a) {
    g->in[a] =
        g->stride[a] * (out[a] - 1) + g->dilation[a] * (g->kernel[a] - 1) + 1 - 2 * g->pad[a];
  }
}

bool IsEmpty(const NdConvolution& g) {
  for (const int64_t size : g.in) {
    if (size < 1) return true;
  }
  return false;
}

void ExpectMatch(const NdConvolution& g, bool with_bias, Rng* rng) {
  SCOPED_TRACE(DeconvolutionText(g, with_bias) + " " + ShapeText(g.y_shape()));
  const Shape from = g.y_shape(), to = g.x_shape();
  const Array x = Uniform(ShapeCount(from), -1, 1, rng), dy = Uniform(ShapeCount(to), -1, 1, rng);
  const Array weight = Uniform(ShapeCount(g.weight_shape()), -1, 1, rng);
  const Array bias = Uniform(g.channels, -1, 1, rng);
  const int64_t area = ShapeCount(g.in);
  Array y(dy.size()), dx(x.size(), 0.0), dweight(weight.size(), 0.0), dbias(g.channels, 0.0);
  for (int64_t i = 0; i < std::ssize(y); ++i) {
    const int64_t o = i / area % g.channels;
    y[i] = with_bias ? bias[o] : 0;
    dbias[o] += dy[i];
  }
  g.ForEachProduct([&](int64_t xi, int64_t yi, int64_t wi) {
    y[yi] += x[xi] * weight[wi];
    dx[xi] += dy[yi] * weight[wi];
    dweight[wi] += dy[yi] * x[xi];
  });
  ForEachLayout(DeconvolutionText(g, with_bias), from, x, [&](LayerRunner& runner) {
    ASSERT_EQ(runner.top().shape(), to);
    ASSERT_EQ(runner.layer().params().size(), with_bias ? 2u : 1u);
    ASSERT_EQ(runner.param(0).shape(), g.weight_shape());
    SetData(weight, &runner.param(0));
    if (with_bias) {
      ASSERT_EQ(runner.param(1).shape(), Shape{g.channels});
      SetData(bias, &runner.param(1));
    }
    EXPECT_EQ(Diff(y, runner.Output(), 2e-5), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 2e-5), "");
    EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 2e-5), "");
    if (with_bias) {
      EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 2e-5), "");
    }
  });
}

TEST(DeconvolutionLayer, MatchesTheReferenceForEveryNumberOfSpatialAxes) {
  Rng rng(Seed(), {1});
  for (int axes = 1; axes <= 4; ++axes) {
    for (int trial = 0; trial < (axes == 2 ? 30 : 6); ++trial) {
      NdConvolution g = NdConvolution::Random(axes, &rng);
      Shrink(&g);
      if (!IsEmpty(g)) ExpectMatch(g, trial % 3 != 0, &rng);
    }
  }
}

TEST(DeconvolutionLayer, MatchesTheReferenceInTheGeometriesOfKnownNets) {
  Rng rng(Seed(), {2});
  const auto square = [&](int64_t in, int64_t out, int64_t group, int64_t size, int64_t kernel,
                          int64_t stride, int64_t pad) {
    NdConvolution g;
    g.images = 2, g.channels = out, g.outputs = in, g.groups = group;
    g.kernel = Shape(2, kernel), g.stride = Shape(2, stride), g.pad = Shape(2, pad);
    g.dilation = Shape(2, 1);
    g.in = Shape(2, stride * (size - 1) + kernel - 2 * pad);
    ExpectMatch(g, true, &rng);
  };
  square(32, 16, 1, 4, 4, 2, 1);   // DCGAN
  square(16, 16, 1, 5, 2, 2, 0);   // U-Net
  square(21, 21, 1, 5, 4, 2, 0);   // FCN
  square(21, 21, 21, 5, 4, 2, 1);  // bilinear interpolation
  square(16, 16, 16, 5, 4, 2, 1);
  square(32, 16, 2, 4, 3, 1, 1);
  square(24, 40, 8, 4, 3, 2, 1);
}

// Strided 1x1 convolutions with few channels have dedicated kernels.
TEST(DeconvolutionLayer, MatchesTheReferenceForSinglePixels) {
  Rng rng(Seed(), {3});
  for (const int64_t channels : {2, 4, 7, 8, 12, 16}) {
    NdConvolution g;
    g.images = 2, g.channels = channels, g.outputs = 8;
    g.kernel = {1, 1}, g.stride = {2, 2}, g.pad = {0, 0}, g.dilation = {1, 1};
    g.in = {63, 5};
    ExpectMatch(g, true, &rng);
  }
}

TEST(DeconvolutionLayer, GradientsAreRight) {
  Rng rng(Seed(), {4});
  for (int trial = 0; trial < 12; ++trial) {
    NdConvolution g = NdConvolution::Random(1 + trial % 4, &rng);
    Shrink(&g);
    if (IsEmpty(g)) continue;
    SCOPED_TRACE(DeconvolutionText(g, true));
    ForEachLayout(DeconvolutionText(g, true), g.y_shape(),
                  Uniform(ShapeCount(g.y_shape()), -1, 1, &rng), [&](LayerRunner& runner) {
                    SetData(Uniform(runner.param(0).count(), -1, 1, &rng), &runner.param(0));
                    SetData(Uniform(runner.param(1).count(), -1, 1, &rng), &runner.param(1));
                    EXPECT_EQ(runner.CheckGradients(), "");
                    GradientCheck blind;
                    blind.propagate_down = {false};
                    EXPECT_EQ(runner.CheckGradients(blind), "");
                  });
  }
}

TEST(DeconvolutionLayer, SharesItsWeightsAmongSeveralBottoms) {
  Rng rng(Seed(), {5});
  NdConvolution g;
  g.channels = 3, g.outputs = 2, g.in = {6, 4}, g.kernel = {2, 2}, g.stride = {2, 2};
  g.pad = {0, 0}, g.dilation = {1, 1};
  LayerRunner runner(DeconvolutionText(g, true));
  for (int i = 0; i < 2; ++i) {
    runner.AddBottom(g.y_shape(), Uniform(ShapeCount(g.y_shape()), -1, 1, &rng));
  }
  runner.SetUp(2);
  SetData(Uniform(runner.param(0).count(), -1, 1, &rng), &runner.param(0));
  EXPECT_EQ(runner.CheckGradients(), "");
}

// A bilinear kernel of even size interpolates: an image of one value keeps it away from the border.
TEST(DeconvolutionLayer, InterpolatesWithABilinearFiller) {
  LayerRunner runner(
      "type: 'Deconvolution' convolution_param { num_output: 2 group: 2 kernel_size: 4 stride: 2"
      " pad: 1 bias_term: false weight_filler { type: 'bilinear' } }");
  runner.AddBottom({1, 2, 3, 3}, Array(18, 5.0));
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), (Shape{1, 2, 6, 6}));
  const double hat[4] = {0.25, 0.75, 0.75, 0.25};
  Array kernel;
  for (int i = 0; i < 32; ++i) kernel.push_back(hat[i / 4 % 4] * hat[i % 4]);
  SetData(kernel, &runner.param(0));
  const Array y = runner.Output();
  for (int row = 1; row < 5; ++row) {
    for (int column = 1; column < 5; ++column) EXPECT_FLOAT_EQ(y[row * 6 + column], 5);
  }
}

TEST(DeconvolutionLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {6});
  NdConvolution g;
  g.channels = 2, g.outputs = 3, g.in = {4, 4}, g.kernel = {2, 2}, g.stride = {2, 2};
  g.pad = {0, 0}, g.dilation = {1, 1};
  LayerRunner runner(DeconvolutionText(g, false));
  runner.AddBottom(g.y_shape(), Array(ShapeCount(g.y_shape())));
  runner.SetUp();
  runner.Backward(Array((runner.Forward(), runner.top().count())));
  g.images = 2, g.in = {6, 8};
  const Array x = Uniform(ShapeCount(g.y_shape()), -1, 1, &rng);
  const Array weight = Uniform(ShapeCount(g.weight_shape()), -1, 1, &rng);
  SetData(weight, &runner.param(0));
  runner.Reshape(g.y_shape(), x);
  ASSERT_EQ(runner.top().shape(), g.x_shape());
  Array y(ShapeCount(g.x_shape()), 0.0);
  g.ForEachProduct([&](int64_t xi, int64_t yi, int64_t wi) { y[yi] += x[xi] * weight[wi]; });
  EXPECT_EQ(Diff(y, runner.Output(), 2e-5), "");
}

TEST(DeconvolutionLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'Deconvolution' convolution_param { " + param + " }");
    runner.AddBottom({1, 4, 1, 1}, Array(4));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("kernel_size: 3"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2"), "kernel_size");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 2 group: 3"), "divide");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 2 pad: 1"), "leaves nothing");
  EXPECT_CONTAINS(complaint("num_output: 2 kernel_size: 2 bias_filler { type: 'x' }"),
                  "there is no filler 'x'");
}

}  // namespace
}  // namespace millrace::test
