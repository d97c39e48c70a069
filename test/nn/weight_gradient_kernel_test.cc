#include "nn/layers/convolution/weight_gradient_kernel.h"

#include "base/simd.h"
#include "test/nn/convolution_geometry.h"
#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Convolution;

// `block`: number of interleaved channels of the bottom, 1 or 8.
void ExpectMatch(const Convolution& g, int64_t block, bool with_bias, Rng* rng) {
  SCOPED_TRACE(TextOf(g, block));
  const Array x = Uniform(g.in_count(), -1, 1, rng), dy = Uniform(g.out_count(), -1, 1, rng);
  Array dx, dweight, dbias;
  g.Backward(x, Array(g.weight_count(), 0.0), dy, &dx, &dweight, &dbias);
  const ConvolutionShape shape = ShapeOf(g, block);
  ASSERT_TRUE(WeightGradientFits(shape));
  WeightGradient gradient(shape);
  const std::vector<float> bottom = Blocked(x, g.n * g.c, g.h * g.w, block);
  const std::vector<float> top = Blocked(dy, g.n * g.outputs, g.out_h() * g.out_w(), 8);
  for (int pass = 0; pass < 2; ++pass) {  // the second pass reuses the state of the first
    std::vector<float> weight(g.weight_count(), 1e9f), bias(g.outputs, 1e9f);
    gradient.Run(bottom.data(), top.data(), weight.data(), with_bias ? bias.data() : nullptr);
    EXPECT_EQ(Diff(dweight, Array(weight.begin(), weight.end()), 1e-4), "");
    if (with_bias) {
      EXPECT_EQ(Diff(dbias, Array(bias.begin(), bias.end()), 1e-4), "");
    }
  }
}

TEST(WeightGradient, MatchesTheReferenceInRandomGeometries) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {1});
  for (int trial = 0; trial < 100; ++trial) {
    const int64_t block = trial % 2 == 0 ? 1 : 8;
    const GeometryLimits most = {.channel_blocks = block == 1 ? 30u : 5u,
                                 .outputs_unit = 8,
                                 .outputs_units = 5,
                                 .stride = 4};
    ExpectMatch(RandomGeometry(block, most, &rng), block, trial % 4 != 0, &rng);
  }
}

TEST(WeightGradient, MatchesTheReferenceInThePartsOfAWidePicture) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {2});
  Convolution g;
  g.n = 2, g.c = 3, g.h = 9, g.w = 403, g.outputs = 24, g.kernel_h = g.kernel_w = 3;
  g.pad_h = g.pad_w = 1, g.stride_w = 3;
  ExpectMatch(g, 1, true, &rng);
  g.c = 8, g.w = 120, g.stride_w = 1;
  ExpectMatch(g, 8, true, &rng);
}

TEST(WeightGradient, IsLeftAloneWhereBlocksOfChannelsFillNoGroup) {
  ConvolutionShape shape{2, 2, 8, 16, 9, 9, 32, 7, 7, 3, 3, 1, 1, 0, 0};
  EXPECT_EQ(WeightGradientFits(shape), SimdSupported(Simd::kAvx2));
  shape.channels = 24;  // 12 in each group
  EXPECT_FALSE(WeightGradientFits(shape));
  shape.channels = 16, shape.outputs = 24;
  EXPECT_FALSE(WeightGradientFits(shape));
}

}  // namespace
}  // namespace millrace::test
