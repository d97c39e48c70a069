#include "nn/layers/weight_gradient_kernel.h"

#include "base/simd.h"
#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Convolution;

// From plain order into blocks of 8 channels.
std::vector<float> Blocked(const Array& plain, int64_t n, int64_t c, int64_t area) {
  std::vector<float> blocked(plain.size());
  for (int64_t i = 0; i < n * c; ++i) {
    for (int64_t p = 0; p < area; ++p) {
      blocked[(i / 8 * area + p) * 8 + i % 8] = static_cast<float>(plain[i * area + p]);
    }
  }
  return blocked;
}

// `block`: channels of the bottom that lie together, 1 or 8.
void ExpectMatch(const Convolution& g, int64_t block, bool with_bias, Rng* rng) {
  SCOPED_TRACE(Cat(g.n, "x", g.c, "x", g.h, "x", g.w, " to ", g.outputs, ", block ", block,
                   ", groups ", g.groups, ", kernel ", g.kernel_h, "x", g.kernel_w, ", stride ",
                   g.stride_h, "x", g.stride_w, ", pad ", g.pad_h, "x", g.pad_w));
  const Array x = Uniform(g.in_count(), -1, 1, rng), dy = Uniform(g.out_count(), -1, 1, rng);
  Array dx, dweight, dbias;
  g.Backward(x, Array(g.weight_count(), 0.0), dy, &dx, &dweight, &dbias);
  const ConvolutionShape shape{g.n,        g.groups,   block,      g.c,       g.h,
                               g.w,        g.outputs,  g.out_h(),  g.out_w(), g.kernel_h,
                               g.kernel_w, g.stride_h, g.stride_w, g.pad_h,   g.pad_w};
  ASSERT_TRUE(WeightGradientFits(shape));
  WeightGradient gradient(shape);
  const std::vector<float> plain(x.begin(), x.end());
  const std::vector<float> bottom = block == 1 ? plain : Blocked(x, g.n, g.c, g.h * g.w);
  const std::vector<float> top = Blocked(dy, g.n, g.outputs, g.out_h() * g.out_w());
  for (int pass = 0; pass < 2; ++pass) {  // the second one finds what the first one left
    std::vector<float> weight(g.weight_count(), 1e9f), bias(g.outputs, 1e9f);
    gradient.Run(bottom.data(), top.data(), weight.data(), with_bias ? bias.data() : nullptr);
    EXPECT_EQ(Difference(dweight, Array(weight.begin(), weight.end()), 1e-4), "");
    if (with_bias) {
      EXPECT_EQ(Difference(dbias, Array(bias.begin(), bias.end()), 1e-4), "");
    }
  }
}

TEST(WeightGradient, MatchesTheReferenceInRandomGeometries) {
  if (!SimdSupported(Simd::kAvx2)) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {1});
  for (int trial = 0; trial < 100; ++trial) {
    Convolution g;
    const int64_t block = trial % 2 == 0 ? 1 : 8;
    g.n = 1 + rng.Below(3), g.groups = 1 + rng.Below(2);
    g.c = g.groups * block * (1 + rng.Below(block == 1 ? 30 : 5));
    g.outputs = g.groups * 8 * (1 + rng.Below(5));
    g.kernel_h = 1 + rng.Below(5), g.kernel_w = 1 + rng.Below(5);
    g.pad_h = rng.Below(4), g.pad_w = rng.Below(4);
    g.stride_h = 1 + rng.Below(4), g.stride_w = 1 + rng.Below(4);
    g.h = std::max<int64_t>(g.kernel_h - 2 * g.pad_h, 1) + static_cast<int64_t>(rng.Below(12));
    g.w = std::max<int64_t>(g.kernel_w - 2 * g.pad_w, 1) + static_cast<int64_t>(rng.Below(12));
    ExpectMatch(g, block, trial % 4 != 0, &rng);
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
