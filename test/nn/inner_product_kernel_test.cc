#include "nn/layers/inner_product/inner_product_kernel.h"

#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

std::vector<float> Floats(const Array& values) { return {values.begin(), values.end()}; }
Array Doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

void ExpectMatch(const InnerProductShape& s, bool with_bias, Rng* rng) {
  SCOPED_TRACE(StrCat(s.rows, " rows, ", s.inputs, " inputs, ", s.outputs, " outputs"));
  ASSERT_TRUE(InnerProductKernelFits(s));
  const Array x = Uniform(s.rows * s.inputs, -1, 1, rng);
  const Array weight = Uniform(s.inputs * s.outputs, -1, 1, rng);
  const Array bias = with_bias ? Uniform(s.outputs, -1, 1, rng) : Array();
  const Array dy = Uniform(s.rows * s.outputs, -1, 1, rng);
  const reference::InnerProduct g{s.rows, s.inputs, s.outputs, false};
  Array dx, dweight, dbias;
  g.Backward(x, weight, dy, &dx, &dweight, &dbias);

  // The earlier contents of these arrays must not affect the results.
  std::vector<float> top(s.rows * s.outputs, 1e9f), bottom_diff(s.rows * s.inputs, 1e9f);
  std::vector<float> scratch(InnerProductScratchBytes(s) / sizeof(float), 1e9f);
  InnerProductForward(s, Floats(x).data(), Floats(weight).data(),
                      with_bias ? Floats(bias).data() : nullptr, top.data(), scratch.data());
  EXPECT_EQ(Diff(g.Forward(x, weight, bias), Doubles(top), 1e-4), "");
  InnerProductBackwardData(s, Floats(dy).data(), Floats(weight).data(), bottom_diff.data(),
                           scratch.data());
  EXPECT_EQ(Diff(dx, Doubles(bottom_diff), 1e-4), "");
  for (int unaligned : {0, 1}) {
    std::vector<float> weight_diff(weight.size() + 1, 1e9f), bias_diff(s.outputs, 1e9f);
    InnerProductBackwardWeights(s, Floats(x).data(), Floats(dy).data(),
                                weight_diff.data() + unaligned,
                                with_bias ? bias_diff.data() : nullptr, scratch.data());
    weight_diff.erase(unaligned ? weight_diff.begin() : weight_diff.end() - 1);
    EXPECT_EQ(Diff(dweight, Doubles(weight_diff), 1e-4), "");
    if (with_bias) {
      EXPECT_EQ(Diff(dbias, Doubles(bias_diff), 1e-4), "");
    }
  }
}

TEST(InnerProductKernel, MatchesTheReferenceForAnyRowsAndOutputs) {
  if (!InnerProductKernelFits({1, 16, 1})) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {1});
  for (int64_t rows = 1; rows <= 65; rows = rows < 18 ? rows + 1 : 2 * rows - 3) {
    for (int64_t outputs : {1, 2, 3, 4, 5, 6, 7, 12, 15, 25}) {
      ExpectMatch({rows, 16, outputs}, outputs % 2 == 0, &rng);
      ExpectMatch({rows, 80, outputs}, outputs % 2 == 1, &rng);
    }
  }
}

TEST(InnerProductKernel, MatchesTheReferenceWhereItWorksInSeveralParts) {
  if (!InnerProductKernelFits({1, 16, 1})) GTEST_SKIP() << "this processor has no AVX2";
  Rng rng(Seed(), {2});
  ExpectMatch({3, 2048 + 16, 9}, true, &rng);
  ExpectMatch({33, 2 * 2048, 64}, true, &rng);
  ExpectMatch({16, 96, 64 + 1}, true, &rng);
  ExpectMatch({50, 48, 2 * 64 + 7}, false, &rng);
  ExpectMatch({65, 240, 31}, true, &rng);
  ExpectMatch({300, 48, 13}, true, &rng);
}

TEST(InnerProductKernel, IsLeftAloneWhereInputsFillNoWholeTiles) {
  EXPECT_FALSE(InnerProductKernelFits({16, 24, 6}));
  EXPECT_FALSE(IsInnerProductKernelWorthwhile({16, 4095, 4096}));
}

// Large enough for the layer to select this kernel.
TEST(InnerProductKernel, ServesTheLayer) {
  Rng rng(Seed(), {3});
  const reference::InnerProduct g{10, 2048, 513, false};
  const Array x = Uniform(g.m * g.k, -1, 1, &rng), bias = Uniform(g.outputs, -1, 1, &rng);
  const Array weight = Uniform(g.k * g.outputs, -1, 1, &rng);
  const Array dy = Uniform(g.m * g.outputs, -1, 1, &rng);
  Array dx, dweight, dbias;
  g.Backward(x, weight, dy, &dx, &dweight, &dbias);
  LayerRunner runner("type: 'InnerProduct' bottom: 'x' inner_product_param { num_output: 513 }");
  runner.AddBottom({g.m, g.k}, x);
  runner.SetUp();
  SetData(weight, &runner.param(0));
  SetData(bias, &runner.param(1));
  EXPECT_EQ(Diff(g.Forward(x, weight, bias), runner.Output(), 1e-4), "");
  runner.Backward(dy);
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-4), "");
  EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 1e-4), "");
  EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 1e-4), "");
}

}  // namespace
}  // namespace millrace::test
