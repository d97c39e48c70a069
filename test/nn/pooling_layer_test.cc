#include <limits>

#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Pooling;

std::string Text(const Pooling& g) {
  return StrCat("type: 'Pooling' bottom: 'x' pooling_param { pool: ", g.average ? "AVE" : "MAX",
                " kernel_h: ", g.kernel_h, " kernel_w: ", g.kernel_w, " pad_h: ", g.pad_h,
                " pad_w: ", g.pad_w, " stride_h: ", g.stride_h, " stride_w: ", g.stride_w,
                " round_mode: ", g.round_up ? "CEIL" : "FLOOR", " }");
}

Pooling RandomGeometry(Rng* rng) {
  Pooling g;
  g.average = rng->Below(2) == 0;
  g.round_up = rng->Below(4) != 0;
  g.n = 1 + rng->Below(2);
  constexpr int64_t kChannels[] = {1, 3, 8, 16, 20, 32};
  g.c = kChannels[rng->Below(6)];
  const auto axis = [&](int64_t* size, int64_t* kernel, int64_t* pad, int64_t* stride) {
    *kernel = 1 + rng->Below(4);
    *pad = rng->Below(*kernel);
    *stride = 1 + rng->Below(4);
    *size = std::max<int64_t>(*kernel - 2 * *pad, 1) + rng->Below(9);
  };
  axis(&g.h, &g.kernel_h, &g.pad_h, &g.stride_h);
  axis(&g.w, &g.kernel_w, &g.pad_w, &g.stride_w);
  return g;
}

void ExpectMatch(const std::string& text, const Pooling& g, const Array& x, Rng* rng) {
  SCOPED_TRACE(text);
  const Array dy = Uniform(g.out_count(), -1, 1, rng);
  ForEachLayout(text, {g.n, g.c, g.h, g.w}, x, [&](LayerRunner& runner) {
    ASSERT_EQ(runner.top().shape(), (Shape{g.n, g.c, g.out_h(), g.out_w()}));
    EXPECT_EQ(Diff(g.Forward(x), runner.Output(), 1e-6), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(g.Backward(x, dy), GetDiff(runner.bottom()), 1e-6), "");
  });
}

TEST(PoolingLayer, MatchesTheReferenceInRandomGeometriesAndEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (int trial = 0; trial < 150; ++trial) {
    const Pooling g = RandomGeometry(&rng);
    ExpectMatch(Text(g), g, Apart(g.n * g.c * g.h * g.w, 0.01, &rng), &rng);
  }
}

TEST(PoolingLayer, GivesTheGradientOfEqualMaximaToTheFirst) {
  Rng rng(Seed(), {2});
  for (int trial = 0; trial < 30; ++trial) {
    Pooling g = RandomGeometry(&rng);
    g.average = false;
    Array x = Uniform(g.n * g.c * g.h * g.w, 0, 3, &rng);
    for (double& value : x) value = static_cast<int>(value);
    ExpectMatch(Text(g), g, x, &rng);
  }
}

TEST(PoolingLayer, RoundsUpAndClipsAsInKnownNets) {
  Rng rng(Seed(), {3});
  for (bool average : {false, true}) {
    Pooling quick;  // 32 -> 16; the last window extends past the bottom
    quick.average = average, quick.c = 32, quick.h = quick.w = 32;
    quick.kernel_h = quick.kernel_w = 3, quick.stride_h = quick.stride_w = 2;
    EXPECT_EQ(quick.out_h(), 16);
    ExpectMatch(Text(quick), quick, Apart(quick.c * 32 * 32, 0.001, &rng), &rng);
    Pooling padded = quick;  // some windows extend past the trailing padding
    padded.c = 3, padded.h = 7, padded.w = 9, padded.kernel_h = 4, padded.kernel_w = 3;
    padded.stride_h = 3, padded.pad_h = 1, padded.pad_w = 2, padded.stride_w = 3;
    ExpectMatch(Text(padded), padded, Apart(3 * 7 * 9, 0.01, &rng), &rng);
    Pooling dropped;  // the last window would start in the trailing padding
    dropped.average = average, dropped.h = dropped.w = 4, dropped.kernel_h = dropped.kernel_w = 2;
    dropped.pad_h = dropped.pad_w = 1, dropped.stride_h = dropped.stride_w = 5;
    EXPECT_EQ(dropped.out_h(), 1);
    ExpectMatch(Text(dropped), dropped, Apart(16, 0.01, &rng), &rng);
  }
}

// With a stride larger than the kernel, the last window can lie completely outside the bottom. It
// is dropped if there is padding along any axis, as by Caffe.
TEST(PoolingLayer, HasAWindowOutsideOfTheBottomWithoutPaddingOnly) {
  Rng rng(Seed(), {4});
  for (bool average : {false, true}) {
    for (int64_t channels : {2, 16}) {
      Pooling g;
      g.average = average, g.c = channels, g.h = 5, g.w = 8, g.stride_h = 3, g.stride_w = 2;
      EXPECT_EQ(g.out_h(), 3);
      EXPECT_EQ(g.out_w(), 5);
      ExpectMatch(Text(g), g, Apart(channels * 40, 0.01, &rng), &rng);
      g.kernel_h = 2, g.pad_h = 1;
      EXPECT_EQ(g.out_h(), 2);
      EXPECT_EQ(g.out_w(), 4);
      ExpectMatch(Text(g), g, Apart(channels * 40, 0.01, &rng), &rng);
    }
  }
}

TEST(PoolingLayer, AWindowWithoutValuesHasNeitherAMaximumNorAMean) {
  for (const bool average : {false, true}) {
    LayerRunner runner(
        StrCat("type: 'Pooling' bottom: 'x' pooling_param { kernel_size: 1 stride: 2 ",
               average ? "pool: AVE }" : "pool: MAX }"));
    runner.AddBottom({1, 1, 2, 1}, {3, 4});
    runner.SetUp(average ? 1 : 2);
    EXPECT_EQ(runner.Output(), (Array{3, average ? 0 : -std::numeric_limits<float>::max()}));
    if (!average) {
      EXPECT_EQ(GetData(runner.top(1)), (Array{0, -1}));
    }
    runner.Backward({5, 7});
    EXPECT_EQ(GetDiff(runner.bottom()), (Array{5, 0}));
  }
}

TEST(PoolingLayer, RoundsDownIfEitherFieldSaysSo) {
  for (const char* field : {"round_mode: FLOOR", "ceil_mode: false", "ceil_mode: true", ""}) {
    LayerRunner runner(StrCat(
        "type: 'Pooling' bottom: 'x' pooling_param { kernel_size: 2 stride: 2 ", field, " }"));
    runner.AddBottom({1, 1, 5, 7}, Array(35));
    runner.SetUp();
    const bool down = std::string(field).find("FLOOR") != std::string::npos ||
                      std::string(field).find("false") != std::string::npos;
    EXPECT_EQ(runner.top().shape(), (down ? Shape{1, 1, 2, 3} : Shape{1, 1, 3, 4})) << field;
  }
}

// Rounded up, one window results as long as the kernel exceeds the bottom by less than the stride.
TEST(PoolingLayer, AcceptsAWindowLargerThanTheBottom) {
  Rng rng(Seed(), {8});
  for (bool average : {false, true}) {
    for (int64_t channels : {3, 16}) {
      Pooling g;
      g.average = average, g.c = channels, g.h = 6, g.w = 5;
      g.kernel_h = g.kernel_w = 7, g.stride_h = 2, g.stride_w = 3;
      EXPECT_EQ(g.out_h(), 1);
      EXPECT_EQ(g.out_w(), 1);
      ExpectMatch(Text(g), g, Apart(channels * 30, 0.01, &rng), &rng);
      g.kernel_h = 9, g.pad_h = 1;
      EXPECT_EQ(g.out_h(), 1);
      ExpectMatch(Text(g), g, Apart(channels * 30, 0.01, &rng), &rng);
    }
  }
}

TEST(PoolingLayer, TellsThePositionsOfTheMaxima) {
  Rng rng(Seed(), {9});
  for (int trial = 0; trial < 30; ++trial) {
    Pooling g = RandomGeometry(&rng);
    g.average = false;
    SCOPED_TRACE(Text(g));
    const Array x = Apart(g.n * g.c * g.h * g.w, 0.01, &rng),
                dy = Uniform(g.out_count(), -1, 1, &rng);
    for (const Layout order : kLayouts) {
      if (!Fits(order, {g.n, g.c, g.h, g.w})) continue;
      LayerRunner runner(Text(g));
      runner.context().preferred_layout = order;
      runner.AddBottom({g.n, g.c, g.h, g.w}, x, order);
      runner.SetUp(2);
      const Array y = runner.Output(), mask = GetData(runner.top(1));
      EXPECT_EQ(Diff(g.Forward(x), y, 1e-6), "");
      ASSERT_EQ(runner.top(1).shape(), runner.top(0).shape());
      const int64_t plane = g.out_h() * g.out_w();
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t image = static_cast<int64_t>(i) / plane * g.h * g.w;
        if (mask[i] == -1) {
          ASSERT_EQ(y[i], -std::numeric_limits<float>::max());
          continue;
        }
        ASSERT_EQ(x[image + static_cast<int64_t>(mask[i])], y[i]);
      }
      runner.Backward(dy);
      EXPECT_EQ(Diff(g.Backward(x, dy), GetDiff(runner.bottom()), 1e-6), "");
    }
  }
}

TEST(PoolingLayer, HasPositionsOfMaximaOnly) {
  for (const char* method : {"MAX", "AVE", "STOCHASTIC"}) {
    LayerRunner runner(
        StrCat("type: 'Pooling' bottom: 'x' pooling_param { kernel_size: 2 pool: ", method, " }"));
    runner.AddBottom({1, 1, 2, 2}, Array(4));
    runner.SetUp();
    EXPECT_EQ(runner.layer().arity().max_top, method == std::string("MAX") ? 2 : 1);
  }
}

TEST(PoolingLayer, PoolsTheWholeBottomIfAsked) {
  Rng rng(Seed(), {5});
  for (const char* method : {"MAX", "AVE"}) {
    Pooling g;
    g.average = method == std::string("AVE");
    g.n = 2, g.c = 16, g.h = g.kernel_h = 5, g.w = g.kernel_w = 7;
    ExpectMatch(StrCat("type: 'Pooling' bottom: 'x' pooling_param { global_pooling: true pool: ",
                       method, " }"),
                g, Apart(2 * 16 * 35, 0.01, &rng), &rng);
  }
}

TEST(PoolingLayer, GradientsAreRight) {
  Rng rng(Seed(), {6});
  for (int trial = 0; trial < 25; ++trial) {
    const Pooling g = RandomGeometry(&rng);
    SCOPED_TRACE(Text(g));
    ForEachLayout(Text(g), {g.n, g.c, g.h, g.w}, Apart(g.n * g.c * g.h * g.w, 0.05, &rng),
                  [&](LayerRunner& runner) { EXPECT_EQ(runner.CheckGradients(), ""); });
  }
}

TEST(PoolingLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {7});
  for (bool average : {false, true}) {
    Pooling g;
    g.average = average, g.c = 3, g.h = 8, g.w = 8, g.kernel_h = g.kernel_w = 3;
    g.stride_h = g.stride_w = 2, g.pad_h = 1, g.pad_w = 2;
    LayerRunner runner(Text(g));
    runner.AddBottom({1, 3, 8, 8}, Apart(192, 0.01, &rng));
    runner.SetUp();
    runner.Backward(Uniform((runner.Forward(), g.out_count()), -1, 1, &rng));
    g.n = 2, g.h = 9, g.w = 11;
    const Array x = Apart(2 * 3 * 99, 0.01, &rng);
    runner.Reshape({2, 3, 9, 11}, x);
    EXPECT_EQ(Diff(g.Forward(x), runner.Output()), "");
    const Array dy = Uniform(g.out_count(), -1, 1, &rng);
    runner.Backward(dy);
    EXPECT_EQ(Diff(g.Backward(x, dy), GetDiff(runner.bottom())), "");
  }
}

TEST(PoolingLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape = {1, 2, 5, 5}) {
    LayerRunner runner("type: 'Pooling' bottom: 'x' pooling_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape), 0.0));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "give kernel_size");
  EXPECT_CONTAINS(complaint("kernel_size: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("kernel_h: 2"), "kernel_h and kernel_w");
  EXPECT_CONTAINS(complaint("kernel_size: 2 kernel_h: 2 kernel_w: 2"), "give kernel_size");
  EXPECT_CONTAINS(complaint("kernel_size: 2 stride: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("kernel_size: 2 pad: 2"), "less than the kernel");
  EXPECT_CONTAINS(complaint("kernel_size: 6"), "does not fit");
  EXPECT_CONTAINS(complaint("kernel_size: 2 global_pooling: true"), "give no kernel");
  EXPECT_CONTAINS(complaint("global_pooling: true stride: 2"), "stride 1");
  EXPECT_CONTAINS(complaint("kernel_size: 7 stride: 2"), "does not fit");
  EXPECT_CONTAINS(complaint("kernel_size: 6 stride: 2 round_mode: FLOOR"), "does not fit");
  EXPECT_CONTAINS(complaint("kernel_size: 2 pad: 1 pool: STOCHASTIC"), "has no padding");
  EXPECT_CONTAINS(complaint("kernel_size: 2", {4, 5}), "4 axes");
}

}  // namespace
}  // namespace millrace::test
