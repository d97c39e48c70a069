// The layers that pool regions of interest: ROIPooling, PSROIPooling and ROIAlign.
#include <algorithm>
#include <cmath>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

// Regions of a batch of `images`, in pixels of an image of `height` x `width`; some of them are
// partly or wholly outside of it, single points, or end before they begin.
Array Regions(int64_t count, int64_t images, int64_t height, int64_t width, Rng* rng) {
  Array regions;
  for (int64_t r = 0; r < count; ++r) {
    const Array corners = Uniform(4, -4, static_cast<double>(std::max(height, width)) + 6, rng);
    regions.push_back(static_cast<double>(rng->Below(images)));
    for (const double corner : corners) {
      // Halves, which rounding must treat as C does.
      regions.push_back(std::floor(corner * 2) / 2);
    }
    if (r % 3 == 0) continue;
    for (int axis = 1; axis <= 2; ++axis) {
      double* const begin = &regions[r * 5 + axis];
      if (begin[0] > begin[2]) std::swap(begin[0], begin[2]);
    }
  }
  return regions;
}

struct Pixels {
  int64_t begin, end;
};

// The pixels of bin `bin` of `bins` along one axis of a bottom of `limit` pixels.
Pixels MaxBin(double from, double to, float scale, int64_t bin, int64_t bins, int64_t limit) {
  const auto first = std::lround(static_cast<float>(from) * scale);
  const auto last = std::lround(static_cast<float>(to) * scale);
  const int64_t size = std::max<int64_t>(last - first + 1, 1);
  // floor(bin * size / bins), and the same of the next bin rounded up.
  const auto step = static_cast<float>(size) / static_cast<float>(bins);
  const auto begin = first + static_cast<int64_t>(std::floor(static_cast<float>(bin) * step));
  const auto end = first + static_cast<int64_t>(std::ceil(static_cast<float>(bin + 1) * step));
  return {std::clamp<int64_t>(begin, 0, limit), std::clamp<int64_t>(end, 0, limit)};
}

struct PoolCase {
  std::string param;
  int64_t bins_h, bins_w;
  float scale;
};

TEST(RoiPoolingLayer, TakesTheLargestOfEachBin) {
  Rng rng(Seed(), {1});
  constexpr int64_t kImages = 2, kChannels = 3, kHeight = 7, kWidth = 9, kRegions = 24;
  int64_t empty = 0;
  for (const PoolCase& each : {PoolCase{"pooled_h: 2 pooled_w: 3", 2, 3, 1},
                               PoolCase{"pooled_h: 5 pooled_w: 4 spatial_scale: 0.5", 5, 4, 0.5f},
                               PoolCase{"pooled_h: 1 pooled_w: 1 spatial_scale: 0.3", 1, 1, 0.3f},
                               PoolCase{"pooled_h: 20 pooled_w: 7", 20, 7, 1}}) {
    SCOPED_TRACE(each.param);
    const Array x = Apart(kImages * kChannels * kHeight * kWidth, 0.1, &rng);
    const Array regions = Regions(kRegions, kImages, static_cast<int64_t>(kHeight / each.scale),
                                  static_cast<int64_t>(kWidth / each.scale), &rng);
    LayerRunner runner("type: 'ROIPooling' roi_pooling_param { " + each.param + " }");
    runner.AddBottom({kImages, kChannels, kHeight, kWidth}, x);
    runner.AddBottom({kRegions, 5}, regions);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{kRegions, kChannels, each.bins_h, each.bins_w}));
    const Array dy = Uniform(runner.top().count(), -1, 1, &rng);
    Array y, dx(x.size(), 0.0);
    for (int64_t r = 0; r < kRegions; ++r) {
      const double* const region = &regions[r * 5];
      for (int64_t c = 0; c < kChannels; ++c) {
        const int64_t plane = (static_cast<int64_t>(region[0]) * kChannels + c) * kHeight * kWidth;
        for (int64_t i = 0; i < each.bins_h; ++i) {
          for (int64_t j = 0; j < each.bins_w; ++j) {
            const Pixels rows = MaxBin(region[2], region[4], each.scale, i, each.bins_h, kHeight);
            const Pixels columns = MaxBin(region[1], region[3], each.scale, j, each.bins_w, kWidth);
            int64_t best = -1;
            for (int64_t at = 0; at < kHeight * kWidth; ++at) {
              const int64_t row = at / kWidth, column = at % kWidth;
              const bool inside = row >= rows.begin && row < rows.end && column >= columns.begin &&
                                  column < columns.end;
              if (inside && (best < 0 || x[plane + at] > x[plane + best])) best = at;
            }
            if (best >= 0) dx[plane + best] += dy[y.size()];
            y.push_back(best < 0 ? 0.0 : x[plane + best]);
            empty += best < 0;
          }
        }
      }
    }
    EXPECT_EQ(runner.Output(), y);
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
    EXPECT_EQ(runner.CheckGradients(), "");
    runner.layer().CheckForward(runner.bottoms());
  }
  EXPECT_GT(empty, 0);
}

TEST(RoiPoolingLayer, GivesZeroForARegionOutside) {
  LayerRunner runner("type: 'ROIPooling' roi_pooling_param { pooled_h: 1 pooled_w: 2 }");
  runner.AddBottom({1, 1, 2, 2}, {-1, -2, -3, -4});
  runner.AddBottom({3, 5, 1, 1}, {0, 0, 0, 1, 1, 0, 5, 5, 6, 6, 0, 1, 0, 0, 0});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), (Array{-1, -2, 0, 0, -2, -2}));
  runner.Backward({1, 2, 4, 8, 16, 32});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{1, 50, 0, 0}));
}

// The bins [floor, ceil) along an axis.
Pixels SensitiveBin(double from, double to, float scale, int64_t bin, int64_t bins, int64_t limit) {
  const float begin = static_cast<float>(std::round(from)) * scale;
  const float size = std::fma(static_cast<float>(std::round(to) + 1), scale, -begin);
  const float step = std::max(size, 0.1f) / static_cast<float>(bins);
  const auto first =
      static_cast<int64_t>(std::floor(std::fma(static_cast<float>(bin), step, begin)));
  const auto last =
      static_cast<int64_t>(std::ceil(std::fma(static_cast<float>(bin + 1), step, begin)));
  return {std::clamp<int64_t>(first, 0, limit), std::clamp<int64_t>(last, 0, limit)};
}

TEST(PsRoiPoolingLayer, TakesTheMeanOfEachBinInItsOwnChannel) {
  Rng rng(Seed(), {2});
  constexpr int64_t kImages = 2, kOutputs = 2, kHeight = 6, kWidth = 8, kRegions = 15;
  for (const auto& [group, scale] : {std::pair<int64_t, float>(3, 1), {2, 0.0625f}, {1, 0.4f}}) {
    SCOPED_TRACE(group);
    const int64_t channels = kOutputs * group * group;
    const Array x = Uniform(kImages * channels * kHeight * kWidth, -1, 1, &rng);
    const Array regions = Regions(kRegions, kImages, static_cast<int64_t>(kHeight / scale),
                                  static_cast<int64_t>(kWidth / scale), &rng);
    LayerRunner runner(StrCat("type: 'PSROIPooling' psroi_pooling_param { output_dim: 2 ",
                              "group_size: ", group, " spatial_scale: ", scale, " }"));
    runner.AddBottom({kImages, channels, kHeight, kWidth}, x);
    runner.AddBottom({kRegions, 5}, regions);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{kRegions, kOutputs, group, group}));
    const Array dy = Uniform(runner.top().count(), -1, 1, &rng);
    Array y, dx(x.size(), 0.0);
    for (int64_t r = 0; r < kRegions; ++r) {
      const double* const region = &regions[r * 5];
      for (int64_t k = 0; k < channels; ++k) {
        const int64_t i = k / group % group, j = k % group;
        const Pixels rows = SensitiveBin(region[2], region[4], scale, i, group, kHeight);
        const Pixels columns = SensitiveBin(region[1], region[3], scale, j, group, kWidth);
        const int64_t plane = (static_cast<int64_t>(region[0]) * channels + k) * kHeight * kWidth;
        const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
        const auto area =
            static_cast<double>((rows.end - rows.begin) * (columns.end - columns.begin));
        double sum = 0;
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          for (int64_t column = columns.begin; column < columns.end; ++column) {
            sum += x[plane + row * kWidth + column];
            dx[plane + row * kWidth + column] += dy[y.size()] / area;
          }
        }
        y.push_back(empty ? 0.0 : sum / area);
      }
    }
    EXPECT_EQ(Diff(y, runner.Output(), 1e-6), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
    EXPECT_EQ(runner.CheckGradients(), "");
    runner.layer().CheckForward(runner.bottoms());
  }
}

// What each of `limit` pixels of an axis counts for at `at`; nothing far outside.
Array HatWeights(float at, int64_t limit) {
  Array weights(limit, 0.0);
  if (!(at >= -1 && at <= static_cast<float>(limit))) return weights;
  const double inside = std::clamp<double>(at, 0, static_cast<double>(limit - 1));
  for (int64_t i = 0; i < limit; ++i) {
    weights[i] = std::max(0.0, 1 - std::abs(inside - static_cast<double>(i)));
  }
  return weights;
}

// The mean of HatWeights over the points of bin `bin` of `bins`.
Array AlignWeights(double from, double to, float scale, int64_t bin, int64_t bins, int sampling,
                   int64_t limit) {
  const float begin = static_cast<float>(from) * scale;
  const float size = std::fma(static_cast<float>(to), scale, -begin);
  const float step = std::max(size, 1.0f) / static_cast<float>(bins);
  const int points = sampling > 0 ? sampling : static_cast<int>(std::ceil(step));
  Array weights(limit, 0.0);
  for (int k = 0; k < points; ++k) {
    const float share = (static_cast<float>(k) + 0.5f) / static_cast<float>(points);
    const Array own = HatWeights(std::fma(static_cast<float>(bin) + share, step, begin), limit);
    for (int64_t i = 0; i < limit; ++i) weights[i] += own[i] / points;
  }
  return weights;
}

struct AlignCase {
  std::string param;
  int64_t bins_h, bins_w;
  float scale;
  int sampling;
};

TEST(RoiAlignLayer, TakesTheMeanOfBilinearSamples) {
  Rng rng(Seed(), {3});
  constexpr int64_t kImages = 2, kChannels = 2, kHeight = 6, kWidth = 8, kRegions = 18;
  for (const AlignCase& each :
       {AlignCase{"roi_align_param { pooled_h: 2 pooled_w: 3 sampling_ratio: 3 }", 2, 3, 1, 3},
        AlignCase{"roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 }", 3, 2, 0.5f, 0},
        AlignCase{"roi_align_param { pooled_h: 1 pooled_w: 1 sampling_ratio: 0 }", 1, 1, 1, 0},
        AlignCase{"roi_pooling_param { pooled_h: 4 pooled_w: 9 spatial_scale: 0.3 }", 4, 9, 0.3f,
                  2}}) {
    SCOPED_TRACE(each.param);
    const Array x = Uniform(kImages * kChannels * kHeight * kWidth, -1, 1, &rng);
    const Array regions = Regions(kRegions, kImages, static_cast<int64_t>(kHeight / each.scale),
                                  static_cast<int64_t>(kWidth / each.scale), &rng);
    LayerRunner runner("type: 'ROIAlign' " + each.param);
    runner.AddBottom({kImages, kChannels, kHeight, kWidth}, x);
    runner.AddBottom({kRegions, 5}, regions);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{kRegions, kChannels, each.bins_h, each.bins_w}));
    const Array dy = Uniform(runner.top().count(), -1, 1, &rng);
    Array y, dx(x.size(), 0.0);
    for (int64_t r = 0; r < kRegions; ++r) {
      const double* const region = &regions[r * 5];
      for (int64_t k = 0; k < kChannels * each.bins_h * each.bins_w; ++k) {
        const int64_t i = k / each.bins_w % each.bins_h, j = k % each.bins_w;
        const Array rows =
            AlignWeights(region[2], region[4], each.scale, i, each.bins_h, each.sampling, kHeight);
        const Array columns =
            AlignWeights(region[1], region[3], each.scale, j, each.bins_w, each.sampling, kWidth);
        const int64_t c = k / (each.bins_h * each.bins_w);
        const int64_t plane = (static_cast<int64_t>(region[0]) * kChannels + c) * kHeight * kWidth;
        double sum = 0;
        for (int64_t at = 0; at < kHeight * kWidth; ++at) {
          const double weight = rows[at / kWidth] * columns[at % kWidth];
          sum += weight * x[plane + at];
          dx[plane + at] += weight * dy[y.size()];
        }
        y.push_back(sum);
      }
    }
    EXPECT_EQ(Diff(y, runner.Output(), 1e-5), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-5), "");
    EXPECT_EQ(runner.CheckGradients(), "");
    runner.layer().CheckForward(runner.bottoms());
  }
}

TEST(RoiAlignLayer, InterpolatesBetweenTheCentresOfPixels) {
  LayerRunner runner(
      "type: 'ROIAlign' roi_align_param { pooled_h: 1 pooled_w: 2 sampling_ratio: 1 }");
  runner.AddBottom({1, 1, 2, 4}, {0, 1, 2, 3, 10, 11, 12, 13});
  // Points at (0.5, 0.5) and (1.5, 0.5); on the edge; outside by one pixel and by more.
  runner.AddBottom({3, 5}, {0, 0, 0, 2, 1, 0, 2.5, -1, 4.5, 0, 0, -3, 0, 1, 1});
  runner.SetUp();
  EXPECT_EQ(Diff({5.5, 6.5, 3, 3, 0, 5}, runner.Output(), 1e-6), "");
}

TEST(RoiAlignLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& bottom = {1, 1, 2, 2}) {
    LayerRunner runner("type: 'ROIAlign' " + param);
    runner.AddBottom(bottom, Array(ShapeCount(bottom)));
    runner.AddBottom({1, 5}, Array(5));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_EQ(complaint("roi_align_param { pooled_w: 1 }"),
            "0 given or missing, expected at least 1");
  EXPECT_EQ(complaint("roi_pooling_param { pooled_h: 1 }"),
            "0 given or missing, expected at least 1");
  EXPECT_EQ(complaint(""), "0 given or missing, expected at least 1");
  const std::string one = "pooled_h: 1 pooled_w: 1 ";
  EXPECT_CONTAINS(complaint("roi_align_param { " + one + "spatial_scale: -1 }"),
                  "a positive number");
  EXPECT_CONTAINS(complaint("roi_align_param { " + one + "sampling_ratio: 257 }"),
                  "257 given, expected at most 256");
  EXPECT_CONTAINS(complaint("roi_align_param { " + one + "} roi_pooling_param { " + one + "}"),
                  "beside roi_align_param, expected one of them");
  EXPECT_CONTAINS(complaint("roi_align_param { " + one + "}", {2, 2}), "expected 4");
  EXPECT_CONTAINS(complaint("roi_align_param { " + one + "}", {1, 1, 0, 2}), "planes with values");
}

const char* const kPool =
    "name: 'pool' type: 'ROIPooling' roi_pooling_param { pooled_h: 2 pooled_w: 2 }";
const char* const kSensitive =
    "name: 'pool' type: 'PSROIPooling' psroi_pooling_param { output_dim: 1 group_size: 2 "
    "spatial_scale: 1 }";
const char* const kAlign =
    "name: 'pool' type: 'ROIAlign' roi_align_param { pooled_h: 2 pooled_w: 2 }";

TEST(RegionPoolings, ReportARegionOfNoImage) {
  for (const char* text : {kPool, kSensitive, kAlign}) {
    for (const double image : {2.0, -1.0}) {
      LayerRunner runner(text);
      runner.AddBottom({2, 4, 2, 2}, Array(32, 1));
      runner.AddBottom({2, 5}, {1, 0, 0, 1, 1, image, 0, 0, 1, 1});
      runner.SetUp();
      runner.Forward();
      EXPECT_CONTAINS(ErrorOf([&] { runner.layer().CheckForward(runner.bottoms()); }),
                      "layer 'pool': index " + std::to_string(static_cast<int>(image)) +
                          " at position 1 is not one of 0 to 1");
      runner.Backward(Array(runner.top().count(), 1));
    }
  }
}

TEST(RegionPoolings, TakeCornersThatAreNoNumbers) {
  for (const char* text : {kPool, kSensitive, kAlign}) {
    LayerRunner runner(text);
    runner.AddBottom({1, 4, 2, 2}, Array(16, 1));
    runner.AddBottom({3, 5}, {0, NAN, 0, 1, 1, 0, -1e30, -1e30, 1e30, 1e30, 0, 0, 0, INFINITY, 1});
    runner.SetUp();
    for (const double value : runner.Output()) EXPECT_TRUE(value == 0 || value == 1) << value;
    runner.Backward(Array(runner.top().count(), 1));
    for (const double value : GetDiff(runner.bottom())) EXPECT_GE(value, 0);
  }
}

TEST(RegionPoolings, FollowABottomOfAnotherSize) {
  for (const char* text : {kPool, kSensitive, kAlign}) {
    LayerRunner runner(text);
    runner.AddBottom({1, 4, 1, 1}, {1, 2, 3, 4});
    runner.AddBottom({1, 5}, {0, 0, 0, 1, 1});
    runner.SetUp();
    EXPECT_EQ(runner.Output()[0], 1);
    Array x(16);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    runner.Reshape({1, 4, 2, 2}, x);
    EXPECT_EQ(runner.Output()[3], text == kPool ? 3 : text == kAlign ? 2.25 : 15);
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

std::string Complaint(const std::string& text, const Shape& bottom, const Shape& regions) {
  LayerRunner runner(text);
  runner.AddBottom(bottom, Array(ShapeCount(bottom)));
  runner.AddBottom(regions, Array(ShapeCount(regions)));
  return ErrorOf([&] { runner.SetUp(); });
}

TEST(RoiPoolingLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& bottom = {1, 1, 2, 2},
                            const Shape& regions = {1, 5}) {
    return Complaint("type: 'ROIPooling' roi_pooling_param { " + param + " }", bottom, regions);
  };
  EXPECT_EQ(complaint("pooled_w: 1"), "0 given or missing, expected at least 1");
  EXPECT_EQ(complaint("pooled_h: 1"), "0 given or missing, expected at least 1");
  EXPECT_CONTAINS(complaint("pooled_h: 1 pooled_w: 1 spatial_scale: 0"), "a positive number");
  EXPECT_CONTAINS(complaint("pooled_h: 65536 pooled_w: 65536"), "more than");
  EXPECT_CONTAINS(complaint("pooled_h: 1 pooled_w: 1", {2, 2}), "expected 4");
  EXPECT_CONTAINS(complaint("pooled_h: 1 pooled_w: 1", {1, 1, 2, 2}, {5, 4}), "rows of 5 numbers");
}

TEST(PsRoiPoolingLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& bottom = {1, 4, 2, 2},
                            const Shape& regions = {1, 5}) {
    return Complaint("type: 'PSROIPooling' psroi_pooling_param { " + param + " }", bottom, regions);
  };
  const std::string good = "output_dim: 1 group_size: 2 spatial_scale: 1";
  EXPECT_CONTAINS(complaint("group_size: 2 spatial_scale: 1"), "0 given or missing");
  EXPECT_CONTAINS(complaint("output_dim: -1 group_size: 2 spatial_scale: 1"), "-1 given");
  EXPECT_CONTAINS(complaint("output_dim: 1 spatial_scale: 1"), "0 given or missing");
  EXPECT_CONTAINS(complaint("output_dim: 1 group_size: 2"), "0 given or missing");
  EXPECT_CONTAINS(complaint(good, {4, 2}), "expected 4");
  EXPECT_CONTAINS(complaint(good, {1, 3, 2, 2}), "expected 4 channels");
  EXPECT_CONTAINS(complaint(good, {1, 4, 2, 2}, {5}), "rows of 5 numbers");
}

}  // namespace
}  // namespace millrace::test
