#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string Text(const std::string& param) {
  return "type: 'Normalize' norm_param { " + param + " }";
}

// {images, channels, area}, with one scale per channel.
Array Expected(const Array& x, const std::vector<int64_t>& dims, const Array& scale, bool across,
               double eps) {
  const int64_t channels = dims[1], area = dims[2];
  Array y(x.size());
  for (int64_t n = 0; n < dims[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t k = 0; k < area; ++k) {
        double sum = eps;
        for (int64_t d = 0; d < channels; ++d) {
          for (int64_t j = 0; j < area; ++j) {
            if (across || j == k) sum += std::pow(x[(n * channels + d) * area + j], 2);
          }
        }
        const int64_t i = (n * channels + c) * area + k;
        y[i] = scale[c] * x[i] / std::sqrt(sum);
      }
    }
  }
  return y;
}

TEST(NormalizeLayer, DividesByTheNormAndScales) {
  Rng rng(Seed(), {1});
  for (const bool across : {false, true}) {
    for (const bool shared : {false, true}) {
      for (const double eps : {1e-10, 0.5}) {
        SCOPED_TRACE(StrCat("across ", across, ", shared ", shared, ", eps ", eps));
        const Array x = Uniform(2 * 5 * 3 * 4, -1, 1, &rng);
        const auto runner = RunnerOf(
            Text(StrCat("across_spatial: ", across, " channel_shared: ", shared, " eps: ", eps)),
            {{{2, 5, 3, 4}, x}});
        EXPECT_EQ(runner->param(0).shape(), shared ? Shape{} : Shape{5});
        Array scale = Uniform(shared ? 1 : 5, 0.5, 2, &rng);
        SetData(scale, &runner->param(0));
        scale.resize(5, scale[0]);
        EXPECT_EQ(Diff(Expected(x, {2, 5, 12}, scale, across, eps), runner->Output()), "");
        EXPECT_EQ(runner->CheckGradients(), "");
      }
    }
  }
}

TEST(NormalizeLayer, TakesBottomsWithoutSpatialAxes) {
  Rng rng(Seed(), {2});
  const Array x = Uniform(3 * 4, -1, 1, &rng);
  const auto runner = RunnerOf(Text("across_spatial: false channel_shared: false"), {{{3, 4}, x}});
  SetData({1, 2, 3, 4}, &runner->param(0));
  EXPECT_EQ(Diff(Expected(x, {3, 4, 1}, {1, 2, 3, 4}, false, 0), runner->Output()), "");
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(NormalizeLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {3});
  const auto runner = RunnerOf(Text("across_spatial: false"), {{{1, 3, 2, 2}, Array(12, 1.0)}});
  SetData({2}, &runner->param(0));
  runner->Forward();
  const Array x = Uniform(4 * 3 * 5, -1, 1, &rng);
  runner->Reshape({4, 3, 1, 5}, x);
  EXPECT_EQ(Diff(Expected(x, {4, 3, 5}, {2, 2, 2}, false, 0), runner->Output()), "");
  EXPECT_EQ(runner->CheckGradients(), "");
}

TEST(NormalizeLayer, GivesZerosForZeros) {
  for (const char* across : {"true", "false"}) {
    const auto runner =
        RunnerOf(Text(StrCat("across_spatial: ", across)), {{{1, 3, 2, 2}, Array(12, 0.0)}});
    SetData({20}, &runner->param(0));
    EXPECT_EQ(runner->Output(), Array(12, 0.0));
  }
}

TEST(NormalizeLayer, FillsItsScale) {
  const auto given =
      RunnerOf(Text("channel_shared: false scale_filler { type: 'constant' value: 20 }"),
               {{{1, 3, 2, 2}, Array(12, 1.0)}});
  EXPECT_EQ(given->layer().params()[0].filler.value(), 20);
  const auto missing = RunnerOf(Text(""), {{{1, 3, 2, 2}, Array(12, 1.0)}});
  EXPECT_EQ(missing->layer().params()[0].filler.value(), 1);
}

TEST(NormalizeLayer, RefusesBadSettings) {
  EXPECT_CONTAINS(SetUpError(Text(""), {{5}}), "1 axes, expected at least 2");
  EXPECT_CONTAINS(SetUpError(Text("scale_filler { type: 'x' }"), {{1, 2}}), "no filler 'x'");
  const auto runner = RunnerOf(Text(""), {{{1, 3, 2, 2}, Array(12, 1.0)}});
  EXPECT_CONTAINS(ErrorOf([&] { runner->Reshape({1, 2}, Array(2, 1.0)); }), "expected 3 channels");
}

}  // namespace
}  // namespace millrace::test
