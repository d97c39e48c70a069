#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Pooling;

Pooling LevelOf(int64_t n, int64_t c, int64_t h, int64_t w, int level, bool average) {
  const int64_t bins = int64_t{1} << level;
  Pooling g;
  g.average = average, g.n = n, g.c = c, g.h = h, g.w = w;
  g.kernel_h = g.stride_h = (h + bins - 1) / bins, g.kernel_w = g.stride_w = (w + bins - 1) / bins;
  g.pad_h = (g.kernel_h * bins - h + 1) / 2, g.pad_w = (g.kernel_w * bins - w + 1) / 2;
  return g;
}

std::string Text(int height, const char* method) {
  return StrCat("type: 'SPP' bottom: 'x' spp_param { pyramid_height: ", height, " pool: ", method,
                " }");
}

void ExpectPyramid(int64_t n, int64_t c, int64_t h, int64_t w, int height, bool average,
                   LayerRunner* runner, const Array& x, Rng* rng) {
  int64_t width = 0;
  for (int level = 0; level < height; ++level) {
    width += LevelOf(n, c, h, w, level, average).out_count() / n;
  }
  ASSERT_EQ(runner->top().shape(), (height == 1 ? Shape{n, c, 1, 1} : Shape{n, width}));
  const Array dy = Uniform(n * width, -1, 1, rng);
  Array y(n * width), dx(x.size(), 0.0);
  int64_t offset = 0;
  for (int level = 0; level < height; ++level) {
    const Pooling g = LevelOf(n, c, h, w, level, average);
    const Array pooled = g.Forward(x);
    const int64_t row = g.out_count() / n;
    Array diff(pooled.size());
    for (int64_t i = 0; i < g.out_count(); ++i) {
      const int64_t at = i / row * width + offset + i % row;
      y[at] = pooled[i];
      diff[i] = dy[at];
    }
    const Array part = g.Backward(x, diff);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] += part[i];
    offset += row;
  }
  EXPECT_EQ(Diff(y, runner->Output(), 1e-6), "");
  runner->Backward(dy);
  EXPECT_EQ(Diff(dx, GetDiff(runner->bottom()), 1e-6), "");
}

TEST(SppLayer, JoinsThePoolingsOfAllLevels) {
  Rng rng(Seed(), {1});
  for (const bool average : {false, true}) {
    for (int height = 1; height <= 3; ++height) {
      for (const auto& [h, w] : {std::pair<int64_t, int64_t>(8, 8), {7, 12}, {10, 9}, {6, 6}}) {
        SCOPED_TRACE(StrCat(height, " levels of ", h, " x ", w));
        const Array x = Apart(2 * 3 * h * w, 0.01, &rng);
        LayerRunner runner(Text(height, average ? "AVE" : "MAX"));
        runner.context().preferred_layout = Layout::kNhwc;
        runner.AddBottom({2, 3, h, w}, x);
        runner.SetUp();
        ExpectPyramid(2, 3, h, w, height, average, &runner, x, &rng);
      }
    }
  }
}

TEST(SppLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const char* method : {"MAX", "AVE"}) {
    LayerRunner runner(Text(3, method));
    runner.AddBottom({1, 2, 7, 8}, Apart(112, 0.05, &rng));
    runner.SetUp();
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(SppLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {3});
  LayerRunner runner(Text(2, "MAX"));
  runner.AddBottom({1, 2, 4, 4}, Apart(32, 0.01, &rng));
  runner.SetUp();
  runner.Forward();
  const Array x = Apart(2 * 2 * 9 * 6, 0.01, &rng);
  runner.Reshape({2, 2, 9, 6}, x);
  ExpectPyramid(2, 2, 9, 6, 2, false, &runner, x, &rng);
}

// All values of a level's bins come from the bottom.
TEST(SppLayer, PoolsStochastically) {
  Rng rng(Seed(), {4});
  const Array x = Uniform(2 * 16, 0, 1, &rng);
  LayerRunner runner(Text(2, "STOCHASTIC"));
  runner.AddBottom({1, 2, 4, 4}, x);
  runner.SetUp();
  const Array y = runner.Output();
  ASSERT_EQ(y.size(), 10u);
  for (const double value : y) EXPECT_NE(std::find(x.begin(), x.end(), value), x.end());
}

TEST(SppLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape = {1, 1, 4, 4}) {
    LayerRunner runner("type: 'SPP' bottom: 'x' spp_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "expected 1 to 16");
  EXPECT_CONTAINS(complaint("pyramid_height: 17"), "expected 1 to 16");
  EXPECT_CONTAINS(complaint("pyramid_height: 4"), "8 x 8 bins do not fit");
  EXPECT_CONTAINS(complaint("pyramid_height: 1", {4, 4}), "expected 4");
}

}  // namespace
}  // namespace millrace::test
