#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string Text(int stride, bool reverse) {
  return StrCat("type: 'Reorg' reorg_param { stride: ", stride,
                reverse ? " reverse: true }" : " }");
}

// For each value of an array {n, channels, height, width}, its place in the array with fewer
// channels and larger planes.
std::vector<int64_t> Places(const Shape& shape, int64_t stride) {
  const int64_t few = shape[1] / (stride * stride);
  std::vector<int64_t> places;
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      for (int64_t j = 0; j < shape[2]; ++j) {
        for (int64_t i = 0; i < shape[3]; ++i) {
          const int64_t block = k / few;
          const int64_t row = j * stride + block / stride, column = i * stride + block % stride;
          places.push_back(((n * few + k % few) * shape[2] * stride + row) * shape[3] * stride +
                           column);
        }
      }
    }
  }
  return places;
}

TEST(ReorgLayer, MovesBlocksToChannelsAsYoloDoes) {
  Rng rng(Seed(), {1});
  for (const int stride : {1, 2, 3}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(Text(stride, reverse));
      const Shape shape{2, 2L * stride * stride, 2L * stride, 3L * stride};
      const Array x = Uniform(ShapeCount(shape), -1, 1, &rng);
      const Array dy = Uniform(ShapeCount(shape), -1, 1, &rng);
      LayerRunner runner(Text(stride, reverse));
      runner.AddBottom(shape, x);
      runner.SetUp();
      ASSERT_EQ(runner.top().shape(), reverse ? (Shape{2, 2, shape[2] * stride, shape[3] * stride})
                                              : (Shape{2, shape[1] * stride * stride, 2, 3}));
      const std::vector<int64_t> places = Places(shape, stride);
      Array y(x.size()), dx(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        (reverse ? y[places[i]] : y[i]) = reverse ? x[i] : x[places[i]];
        (reverse ? dx[i] : dx[places[i]]) = reverse ? dy[places[i]] : dy[i];
      }
      EXPECT_EQ(runner.Output(), y);
      runner.Backward(dy);
      EXPECT_EQ(GetDiff(runner.bottom()), dx);
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(ReorgLayer, PutsEachPlaneBackTogether) {
  LayerRunner runner(Text(2, true));
  runner.AddBottom({1, 4, 1, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), (Array{0, 10, 1, 11, 20, 30, 21, 31}));
  runner.Reshape({1, 4, 1, 1}, {1, 2, 3, 4});
  EXPECT_EQ(runner.top().shape(), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(runner.Output(), (Array{1, 2, 3, 4}));
}

TEST(ReorgLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& text, const Shape& bottom) {
    LayerRunner runner(text);
    runner.AddBottom(bottom, Array(ShapeCount(bottom)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(Text(0, false), {1, 4, 2, 2}), "0 given, expected 1 to 4096");
  EXPECT_CONTAINS(complaint(Text(2, false), {1, 4, 2}), "expected 4 (N, C, H, W)");
  EXPECT_CONTAINS(complaint(Text(2, false), {1, 6, 2, 2}), "a multiple of 4 channels");
  EXPECT_CONTAINS(complaint(Text(2, true), {1, 6, 2, 2}), "a multiple of 4 channels");
  EXPECT_CONTAINS(complaint(Text(2, false), {1, 4, 3, 2}), "multiples of reorg_param.stride, 2");
  EXPECT_CONTAINS(complaint(Text(2, false), {1, 4, 2, 3}), "multiples of reorg_param.stride, 2");
}

}  // namespace
}  // namespace millrace::test
