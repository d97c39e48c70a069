// The layers that enlarge planes: Upsample and Interp.
#include <cmath>
#include <set>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(UpsampleLayer, RepeatsValuesInBlocks) {
  Rng rng(Seed(), {1});
  for (const auto& [param, scale_h, scale_w] : {std::tuple<std::string, int64_t, int64_t>("", 2, 2),
                                                {"scale: 3", 3, 3},
                                                {"scale_h: 1 scale_w: 4", 1, 4}}) {
    LayerRunner runner("type: 'Upsample' upsample_param { " + param + " }");
    const int64_t h = 3, w = 5, planes = 4;
    const Array x = Uniform(planes * h * w, -1, 1, &rng);
    runner.AddBottom({2, 2, h, w}, x);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{2, 2, h * scale_h, w * scale_w}));
    Array y, dx(x.size(), 0.0);
    const Array dy = Uniform(runner.top().count(), -1, 1, &rng);
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t row = 0; row < h * scale_h; ++row) {
        for (int64_t column = 0; column < w * scale_w; ++column) {
          const int64_t from = (p * h + row / scale_h) * w + column / scale_w;
          dx[from] += dy[y.size()];
          y.push_back(x[from]);
        }
      }
    }
    EXPECT_EQ(runner.Output(), y);
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

// Different places in each of four planes.
Array Places(int64_t values, int64_t places, Rng* rng) {
  Array mask;
  for (int plane = 0; plane < 4; ++plane) {
    std::set<int64_t> taken;
    while (std::ssize(taken) < values) {
      const auto place = static_cast<int64_t>(rng->Below(places));
      if (taken.insert(place).second) mask.push_back(static_cast<double>(place));
    }
  }
  return mask;
}

TEST(UpsampleLayer, PutsValuesWhereTheMaskSays) {
  Rng rng(Seed(), {2});
  for (const auto& [param, h, w] : {std::tuple<std::string, int64_t, int64_t>("scale: 2", 4, 6),
                                    {"scale: 2 pad_out_h: true pad_out_w: true", 3, 5},
                                    {"upsample_h: 7 upsample_w: 4", 7, 4}}) {
    LayerRunner runner("type: 'Upsample' upsample_param { " + param + " }");
    const Array x = Uniform(24, -1, 1, &rng), mask = Places(6, h * w, &rng);
    runner.AddBottom({2, 2, 2, 3}, x);
    runner.AddBottom({2, 2, 2, 3}, mask);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{2, 2, h, w}));
    Array y(4 * h * w, 0.0), dx;
    const Array dy = Uniform(4 * h * w, -1, 1, &rng);
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t to = i / 6 * h * w + static_cast<int64_t>(mask[i]);
      y[to] = x[i];
      dx.push_back(dy[to]);
    }
    EXPECT_EQ(runner.Output(), y);
    runner.Backward(dy);
    EXPECT_EQ(GetDiff(runner.bottom(0)), dx);
    EXPECT_EQ(runner.CheckGradients(), "");
    runner.layer().CheckForward(runner.bottoms());
  }
}

TEST(UpsampleLayer, ReportsAPlaceOutsideOfThePlane) {
  LayerRunner runner("name: 'up' type: 'Upsample'");
  runner.AddBottom({1, 1, 1, 2}, {1, 2});
  runner.AddBottom({1, 1, 1, 2}, {0, 8});
  runner.SetUp();
  runner.Forward();
  EXPECT_CONTAINS(ErrorOf([&] { runner.layer().CheckForward(runner.bottoms()); }),
                  "layer 'up': index 8 at position 1 is not one of 0 to 7");
}

TEST(UpsampleLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Upsample'");
  runner.AddBottom({1, 1, 1, 1}, {1});
  runner.SetUp();
  runner.Reshape({1, 1, 1, 2}, {1, 2});
  EXPECT_EQ(runner.Output(), (Array{1, 1, 2, 2, 1, 1, 2, 2}));
}

TEST(UpsampleLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const std::vector<Shape>& shapes) {
    LayerRunner runner("type: 'Upsample' upsample_param { " + param + " }");
    for (const Shape& shape : shapes) runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  const Shape shape = {1, 1, 2, 2};
  EXPECT_CONTAINS(complaint("scale: 0", {shape}), "expected at least 1");
  EXPECT_CONTAINS(complaint("scale: 65536", {shape}), "more than");
  EXPECT_CONTAINS(complaint("upsample_h: 4", {shape}), "need a second bottom");
  EXPECT_CONTAINS(complaint("pad_out_w: true", {shape}), "need a second bottom");
  EXPECT_CONTAINS(complaint("", {{2, 2}}), "expected 4");
  EXPECT_CONTAINS(complaint("", {shape, {1, 1, 2, 3}}), "expected that of bottom[0]");
  EXPECT_CONTAINS(complaint("upsample_h: 0", {shape, shape}), "expected a positive number");
  EXPECT_CONTAINS(complaint("scale: 4096", {shape, shape}), "expected at most 16777216");
}

// Value `index` of `size` along an axis with the values [begin, begin + part), by the definition.
double At(const Array& x, int64_t plane, int64_t width, double row, double column, int64_t last_row,
          int64_t last_column) {
  const auto y = static_cast<int64_t>(row), c = static_cast<int64_t>(column);
  const int64_t y1 = std::min(y + 1, last_row), c1 = std::min(c + 1, last_column);
  const double a = row - y, b = column - c;
  const auto value = [&](int64_t r, int64_t k) { return x[plane + r * width + k]; };
  return (1 - a) * ((1 - b) * value(y, c) + b * value(y, c1)) +
         a * ((1 - b) * value(y1, c) + b * value(y1, c1));
}

void ExpectInterpolated(const std::string& param, int64_t h, int64_t w, int64_t out_h,
                        int64_t out_w, int64_t cut_begin, int64_t cut_end, Rng* rng) {
  SCOPED_TRACE(param);
  const Array x = Uniform(6 * h * w, -1, 1, rng);
  LayerRunner runner("type: 'Interp' interp_param { " + param + " }");
  runner.AddBottom({2, 3, h, w}, x);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), (Shape{2, 3, out_h, out_w}));
  const int64_t rows = h - cut_begin - cut_end, columns = w - cut_begin - cut_end;
  const auto place = [&](int64_t index, int64_t part, int64_t out) {
    return cut_begin + (out > 1 ? static_cast<double>(index * (part - 1)) / (out - 1) : 0.0);
  };
  Array y;
  for (int64_t i = 0; i < 6 * out_h * out_w; ++i) {
    y.push_back(At(x, i / (out_h * out_w) * h * w, w, place(i / out_w % out_h, rows, out_h),
                   place(i % out_w, columns, out_w), cut_begin + rows - 1,
                   cut_begin + columns - 1));
  }
  EXPECT_EQ(Diff(y, runner.Output(), 1e-5), "");
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(InterpLayer, InterpolatesBetweenEqualCorners) {
  Rng rng(Seed(), {3});
  ExpectInterpolated("height: 9 width: 12", 4, 5, 9, 12, 0, 0, &rng);
  ExpectInterpolated("height: 3 width: 2", 7, 6, 3, 2, 0, 0, &rng);
  ExpectInterpolated("height: 1 width: 5", 3, 5, 1, 5, 0, 0, &rng);
  ExpectInterpolated("height: 4 width: 3", 1, 1, 4, 3, 0, 0, &rng);
  ExpectInterpolated("zoom_factor: 3", 4, 5, 10, 13, 0, 0, &rng);
  ExpectInterpolated("shrink_factor: 2", 7, 10, 4, 5, 0, 0, &rng);
  ExpectInterpolated("shrink_factor: 2 zoom_factor: 3", 7, 9, 10, 13, 0, 0, &rng);
  // Beside a size, one factor alone counts, and both do not.
  ExpectInterpolated("height: 3 width: 4 zoom_factor: 3", 4, 5, 10, 13, 0, 0, &rng);
  ExpectInterpolated("shrink_factor: 2 height: 3 width: 4", 7, 10, 4, 5, 0, 0, &rng);
  ExpectInterpolated("shrink_factor: 2 zoom_factor: 3 height: 3 width: 4", 7, 9, 3, 4, 0, 0, &rng);
  ExpectInterpolated("zoom_factor: 2 pad_beg: -1 pad_end: -2", 7, 8, 7, 9, 1, 2, &rng);
}

TEST(InterpLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Interp' interp_param { zoom_factor: 2 }");
  runner.AddBottom({1, 1, 1, 1}, {1});
  runner.SetUp();
  runner.Reshape({1, 1, 1, 3}, {1, 2, 4});
  EXPECT_EQ(Diff({1, 1.5, 2, 3, 4}, runner.Output()), "");
}

TEST(InterpLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape = {1, 1, 3, 3}) {
    LayerRunner runner("type: 'Interp' interp_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "give height and width");
  EXPECT_CONTAINS(complaint("height: 3"), "give height and width");
  EXPECT_CONTAINS(complaint("height: 3 shrink_factor: 2 zoom_factor: 2"), "give height and width");
  EXPECT_CONTAINS(complaint("zoom_factor: 0"), "expected at least 1");
  EXPECT_CONTAINS(complaint("shrink_factor: -1"), "expected at least 1");
  EXPECT_CONTAINS(complaint("zoom_factor: 2 pad_beg: 1"), "0 or a negative number");
  EXPECT_CONTAINS(complaint("zoom_factor: 2 pad_end: -3"), "leaves nothing");
  EXPECT_CONTAINS(complaint("zoom_factor: 2", {3, 3}), "expected 4");
}

}  // namespace
}  // namespace millrace::test
