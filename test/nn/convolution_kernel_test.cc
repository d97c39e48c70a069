#include "nn/layers/convolution/convolution_kernel.h"

#include "base/simd.h"
#include "test/nn/convolution_geometry.h"
#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Convolution;

void ExpectMatch(const Convolution& g, int64_t block, bool with_bias, Rng* rng) {
  SCOPED_TRACE(TextOf(g, block));
  const Array x = Uniform(g.in_count(), -1, 1, rng), weight = Uniform(g.weight_count(), -1, 1, rng);
  const Array bias = with_bias ? Uniform(g.outputs, -1, 1, rng) : Array();
  const ConvolutionShape shape = ShapeOf(g, block);
  ASSERT_TRUE(ConvolutionKernelFits(shape));
  const int64_t out = g.out_h() * g.out_w();
  // Offset by one float, because only float alignment is guaranteed.
  const std::vector<float> bottom = Blocked(x, g.n * g.c, g.h * g.w, block, 1);
  const std::vector<float> weights = Blocked(weight, g.outputs, shape.taps(), 16, 1);
  const std::vector<float> biases(bias.begin(), bias.end());
  ConvolutionKernel kernel(shape);
  for (int pass = 0; pass < 2; ++pass) {  // the second pass reuses the state of the first
    std::vector<float> top(g.n * g.outputs * out + 1, 1e9f);
    kernel.Run(bottom.data() + 1, weights.data() + 1, with_bias ? biases.data() : nullptr,
               top.data() + 1);
    Array y(top.size() - 1);
    for (int64_t i = 0; i < g.n * g.outputs; ++i) {
      for (int64_t p = 0; p < out; ++p) y[i * out + p] = top[1 + PlaceOf(i, p, out, 8)];
    }
    EXPECT_EQ(Diff(g.Forward(x, weight, bias), y, 1e-4), "");
  }
}

TEST(ConvolutionKernel, MatchesTheReferenceInRandomGeometries) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {1});
  for (int trial = 0; trial < 100; ++trial) {
    const int64_t block = trial % 2 == 0 ? 1 : 8;
    const GeometryLimits most = {.channel_blocks = block == 1 ? 7u : 3u,
                                 .outputs_unit = 16,
                                 .outputs_units = 3,
                                 .stride = 3};
    ExpectMatch(RandomGeometry(block, most, &rng), block, trial % 4 < 2, &rng);
  }
}

TEST(ConvolutionKernel, MatchesTheReferenceInSeveralPartsOfTheChannels) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {2});
  Convolution g;
  g.n = 2, g.c = 2 * 136, g.h = 7, g.w = 4, g.outputs = 2 * 16, g.groups = 2;
  g.kernel_h = g.kernel_w = 3, g.pad_h = g.pad_w = 1;
  ExpectMatch(g, 8, true, &rng);
  g.kernel_h = g.kernel_w = 5, g.pad_h = g.pad_w = 2;
  ExpectMatch(g, 8, false, &rng);
}

TEST(ConvolutionKernel, IsLeftAloneWhereOutputsFillNoPairsOfBlocks) {
  ConvolutionShape shape{2, 2, 8, 16, 7, 7, 32, 7, 7, 3, 3, 1, 1, 1, 1};
  EXPECT_EQ(ConvolutionKernelFits(shape), SimdSupported(Simd::kAvx2));
  EXPECT_EQ(IsConvolutionKernelWorthwhile(shape), BestSimd() == Simd::kAvx2);
  shape.outputs = 48;
  EXPECT_FALSE(ConvolutionKernelFits(shape));
  shape.outputs = 32, shape.channels = 24;
  EXPECT_FALSE(ConvolutionKernelFits(shape));
}

}  // namespace
}  // namespace millrace::test
