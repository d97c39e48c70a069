// Kernels (device/kernel.h) of the ROIAlign layer. Regions are those of roi_kernels.h.
#ifndef MILLRACE_CONTRIB_DETECTION_ROI_ALIGN_KERNELS_H_
#define MILLRACE_CONTRIB_DETECTION_ROI_ALIGN_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "contrib/detection/roi_kernels.h"

namespace millrace::inline contrib {

// Where a point lies between two neighbouring pixels of an axis: at `low` with the weight
// 1 - share, and at `high` with the weight `share`.
struct AlignPoint {
  bool inside;  // otherwise it gives 0
  int64_t low, high;
  float share;

  MILLRACE_HOST_DEVICE static AlignPoint At(float at, int64_t limit) {
    // Also false for NaN.
    if (!(at >= -1 && at <= static_cast<float>(limit))) return {false, 0, 0, 0};
    const float from = at > 0 ? at : 0.0f;
    const auto low = static_cast<int64_t>(from);
    if (low >= limit - 1) return {true, limit - 1, limit - 1, 0};
    return {true, low, low + 1, from - static_cast<float>(low)};
  }
  // What pixel `pixel` counts for.
  MILLRACE_HOST_DEVICE float Weight(int64_t pixel) const {
    if (!inside) return 0;
    return pixel == low ? 1 - share : pixel == high ? share : 0.0f;
  }
};

// The bins of one region along one axis, and the points of each.
struct AlignAxis {
  float begin, step;  // pixels
  int64_t bins, points;

  // `sampling`: points of a bin; not positive: one per pixel, at most kMaxPoints.
  MILLRACE_HOST_DEVICE static AlignAxis Of(float from, float to, float scale, int64_t bins,
                                           int64_t sampling) {
    constexpr int64_t kMaxPoints = 256;
    const float begin = from * scale, size = fmaf(to, scale, -begin);
    const float step = (size > 1 ? size : 1.0f) / static_cast<float>(bins);
    const int64_t by_size = Clamp(PixelIndex(ceilf(step)), 1, kMaxPoints);
    return {begin, step, bins, sampling > 0 ? sampling : by_size};
  }
  // Point `point` of bin `bin`; rounded once, on every processor.
  MILLRACE_HOST_DEVICE float At(int64_t bin, int64_t point) const {
    const float share = (static_cast<float>(point) + 0.5f) / static_cast<float>(points);
    return fmaf(static_cast<float>(bin) + share, step, begin);
  }
  // The bins [FirstBin, LastBin) contain all whose points lie less than a pixel from `pixel`.
  MILLRACE_HOST_DEVICE int64_t FirstBin(int64_t pixel) const {
    return Clamp(PixelIndex((static_cast<float>(pixel - 1) - begin) / step) - 1, 0, bins);
  }
  MILLRACE_HOST_DEVICE int64_t LastBin(int64_t pixel) const {
    return Clamp(PixelIndex((static_cast<float>(pixel + 1) - begin) / step) + 2, 0, bins);
  }
  // The sum of the weights of a pixel for the points of a bin.
  MILLRACE_HOST_DEVICE float Weight(int64_t bin, int64_t pixel, int64_t limit) const {
    float sum = 0;
    for (int64_t k = 0; k < points; ++k) sum += AlignPoint::At(At(bin, k), limit).Weight(pixel);
    return sum;
  }
};

struct AlignAxes {
  AlignAxis y, x;

  MILLRACE_HOST_DEVICE static AlignAxes Of(const RoiPoolShape& shape, int64_t sampling,
                                           const float* region) {
    return {AlignAxis::Of(region[2], region[4], shape.scale, shape.pooled_h, sampling),
            AlignAxis::Of(region[1], region[3], shape.scale, shape.pooled_w, sampling)};
  }
  MILLRACE_HOST_DEVICE float Points() const { return static_cast<float>(y.points * x.points); }
};

// An element is a value of the top.
struct RoiAlignForward {
  RoiPoolShape shape;
  int64_t sampling;
  const float* bottom;
  const float* regions;
  float* top;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t px = i % shape.pooled_w, py = i / shape.pooled_w % shape.pooled_h;
    const int64_t plane = i / (shape.pooled_w * shape.pooled_h), c = plane % shape.channels;
    const float* region = regions + plane / shape.channels * 5;
    const AlignAxes axes = AlignAxes::Of(shape, sampling, region);
    const float* in =
        bottom + (shape.ImageOf(region) * shape.channels + c) * shape.height * shape.width;
    float sum = 0;
    for (int64_t iy = 0; iy < axes.y.points; ++iy) {
      const AlignPoint y = AlignPoint::At(axes.y.At(py, iy), shape.height);
      if (!y.inside) continue;
      const float* low = in + y.low * shape.width;
      const float* high = in + y.high * shape.width;
      for (int64_t ix = 0; ix < axes.x.points; ++ix) {
        const AlignPoint x = AlignPoint::At(axes.x.At(px, ix), shape.width);
        if (!x.inside) continue;
        const float above = low[x.low] * (1 - x.share) + low[x.high] * x.share;
        const float below = high[x.low] * (1 - x.share) + high[x.high] * x.share;
        sum += above * (1 - y.share) + below * y.share;
      }
    }
    top[i] = sum / axes.Points();
  }
};

// An element is a value of the bottom: the sum over all bins of diff * weight, in the order of the
// top.
struct RoiAlignGather {
  RoiPoolShape shape;
  int64_t sampling;
  const float* regions;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at = i % (shape.height * shape.width), plane = i / (shape.height * shape.width);
    const int64_t column = at % shape.width, row = at / shape.width;
    const int64_t image = plane / shape.channels, c = plane % shape.channels;
    float sum = 0;
    for (int64_t r = 0; r < shape.regions; ++r) {
      const float* region = regions + r * 5;
      if (shape.ImageOf(region) != image) continue;
      const AlignAxes axes = AlignAxes::Of(shape, sampling, region);
      const int64_t first = axes.x.FirstBin(column), last = axes.x.LastBin(column);
      for (int64_t py = axes.y.FirstBin(row); py < axes.y.LastBin(row); ++py) {
        const float weight = axes.y.Weight(py, row, shape.height) / axes.Points();
        if (weight == 0) continue;
        const int64_t begin = ((r * shape.channels + c) * shape.pooled_h + py) * shape.pooled_w;
        for (int64_t px = first; px < last; ++px) {
          sum += top_diff[begin + px] * weight * axes.x.Weight(px, column, shape.width);
        }
      }
    }
    bottom_diff[i] = sum;
  }
};

// The same sums for a processor with few threads; bottom_diff was 0 before. An element is a plane
// of the bottom.
struct RoiAlignScatter {
  RoiPoolShape shape;
  int64_t sampling;
  const float* regions;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t plane) const {
    const int64_t image = plane / shape.channels, c = plane % shape.channels;
    float* to = bottom_diff + plane * shape.height * shape.width;
    for (int64_t r = 0; r < shape.regions; ++r) {
      const float* region = regions + r * 5;
      if (shape.ImageOf(region) != image) continue;
      const AlignAxes axes = AlignAxes::Of(shape, sampling, region);
      const float* diff = top_diff + (r * shape.channels + c) * shape.pooled_h * shape.pooled_w;
      for (int64_t py = 0; py < shape.pooled_h; ++py) {
        for (int64_t px = 0; px < shape.pooled_w; ++px) {
          Spread(axes, py, px, *diff++ / axes.Points(), to);
        }
      }
    }
  }

  // Adds the diff of each point of a bin to the pixels around it.
  MILLRACE_HOST_DEVICE void Spread(const AlignAxes& axes, int64_t py, int64_t px, float diff,
                                   float* to) const {
    for (int64_t iy = 0; iy < axes.y.points; ++iy) {
      const AlignPoint y = AlignPoint::At(axes.y.At(py, iy), shape.height);
      if (!y.inside) continue;
      float* low = to + y.low * shape.width;
      float* high = to + y.high * shape.width;
      for (int64_t ix = 0; ix < axes.x.points; ++ix) {
        const AlignPoint x = AlignPoint::At(axes.x.At(px, ix), shape.width);
        if (!x.inside) continue;
        low[x.low] += diff * (1 - y.share) * (1 - x.share);
        low[x.high] += diff * (1 - y.share) * x.share;
        high[x.low] += diff * y.share * (1 - x.share);
        high[x.high] += diff * y.share * x.share;
      }
    }
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_ROI_ALIGN_KERNELS_H_
