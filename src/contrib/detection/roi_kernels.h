// Kernels of layers for regions of interest: ROIPooling, PSROIPooling, BoxAnnotatorOHEM.
#ifndef MILLRACE_CONTRIB_DETECTION_ROI_KERNELS_H_
#define MILLRACE_CONTRIB_DETECTION_ROI_KERNELS_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline contrib {

// Kernels (device/kernel.h) of the layers that work on regions of interest: rows of 5 numbers,
// (image, x1, y1, x2, y2). An image outside of the batch stands for image 0 here and is an error of
// the layer (roi_pooling_layers.cc).

// The number as a pixel index. Numbers that are no indices of any image, and NaN, are bounded.
MILLRACE_HOST_DEVICE int64_t PixelIndex(float number) {
  constexpr float kMax = 1 << 28;
  if (!(number > -kMax)) return -(int64_t{1} << 28);
  return number < kMax ? static_cast<int64_t>(number) : int64_t{1} << 28;
}

MILLRACE_HOST_DEVICE int64_t Clamp(int64_t value, int64_t lowest, int64_t highest) {
  return value < lowest ? lowest : value > highest ? highest : value;
}

// A rectangle of pixels, [y0, y1) x [x0, x1).
struct RoiBin {
  int64_t y0, y1, x0, x1;

  MILLRACE_HOST_DEVICE int64_t area() const {
    return y1 > y0 && x1 > x0 ? (y1 - y0) * (x1 - x0) : 0;
  }
};

// The sizes that both poolings share. The top is {regions, top_channels, pooled_h, pooled_w}.
struct RoiPoolShape {
  int64_t images, channels, height, width;  // of the bottom
  int64_t regions, top_channels, pooled_h, pooled_w;
  float scale;  // from the regions' coordinates to pixels of the bottom

  MILLRACE_HOST_DEVICE int64_t ImageOf(const float* region) const {
    const bool valid = region[0] >= 0 && region[0] < static_cast<float>(images);
    return valid ? static_cast<int64_t>(region[0]) : 0;
  }
};

// Bins of one region along one axis, in max pooling: pixels first to last of the region, of which
// there is at least one, divided into `bins` parts that overlap where they do not fit.
struct RoiAxis {
  int64_t first, size;  // pixels of the region
  float step;           // pixels of a bin

  MILLRACE_HOST_DEVICE static RoiAxis Of(float begin, float end, float scale, int64_t bins) {
    const int64_t first = PixelIndex(roundf(begin * scale));
    const int64_t last = PixelIndex(roundf(end * scale));
    const int64_t size = last >= first ? last - first + 1 : 1;
    return {first, size, static_cast<float>(size) / static_cast<float>(bins)};
  }
  MILLRACE_HOST_DEVICE int64_t Begin(int64_t bin, int64_t limit) const {
    return Clamp(PixelIndex(floorf(static_cast<float>(bin) * step)) + first, 0, limit);
  }
  MILLRACE_HOST_DEVICE int64_t End(int64_t bin, int64_t limit) const {
    return Clamp(PixelIndex(ceilf(static_cast<float>(bin + 1) * step)) + first, 0, limit);
  }
  // The bins [FirstBin, LastBin) contain all that pixel `at` is in.
  MILLRACE_HOST_DEVICE int64_t FirstBin(int64_t at, int64_t bins) const {
    return Clamp(PixelIndex(static_cast<float>(at - first) / step) - 1, 0, bins);
  }
  MILLRACE_HOST_DEVICE int64_t LastBin(int64_t at, int64_t bins) const {
    return Clamp(PixelIndex(static_cast<float>(at - first + 1) / step) + 2, 0, bins);
  }
};

// An element is a value of the top: the largest of its bin, and its place in the plane, -1 if the
// bin has no pixel that is larger than -FLT_MAX. An empty bin gives 0.
struct RoiMaxForward {
  RoiPoolShape shape;
  const float* bottom;
  const float* regions;
  float* top;
  int32_t* place;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t px = i % shape.pooled_w, py = i / shape.pooled_w % shape.pooled_h;
    const int64_t plane = i / (shape.pooled_w * shape.pooled_h);
    const int64_t c = plane % shape.channels;
    const float* region = regions + plane / shape.channels * 5;
    const RoiAxis x = RoiAxis::Of(region[1], region[3], shape.scale, shape.pooled_w);
    const RoiAxis y = RoiAxis::Of(region[2], region[4], shape.scale, shape.pooled_h);
    const RoiBin bin{y.Begin(py, shape.height), y.End(py, shape.height), x.Begin(px, shape.width),
                     x.End(px, shape.width)};
    const float* in =
        bottom + (shape.ImageOf(region) * shape.channels + c) * shape.height * shape.width;
    float best = bin.area() == 0 ? 0.0f : -FLT_MAX;
    int64_t best_place = -1;
    for (int64_t row = bin.y0; row < bin.y1; ++row) {
      for (int64_t column = bin.x0; column < bin.x1; ++column) {
        const int64_t at = row * shape.width + column;
        if (in[at] > best) {
          best = in[at];
          best_place = at;
        }
      }
    }
    top[i] = best;
    place[i] = static_cast<int32_t>(best_place);
  }
};

// An element is a value of the bottom: the sum of the diffs of all bins whose largest it was, in
// the order of the top.
struct RoiMaxGather {
  RoiPoolShape shape;
  const float* regions;
  const int32_t* place;
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
      const RoiAxis x = RoiAxis::Of(region[1], region[3], shape.scale, shape.pooled_w);
      const RoiAxis y = RoiAxis::Of(region[2], region[4], shape.scale, shape.pooled_h);
      if (column < x.first || column >= x.first + x.size) continue;
      if (row < y.first || row >= y.first + y.size) continue;
      const int64_t begin = (r * shape.channels + c) * shape.pooled_h;
      for (int64_t py = y.FirstBin(row, shape.pooled_h); py < y.LastBin(row, shape.pooled_h);
           ++py) {
        for (int64_t px = x.FirstBin(column, shape.pooled_w);
             px < x.LastBin(column, shape.pooled_w); ++px) {
          const int64_t from = (begin + py) * shape.pooled_w + px;
          if (place[from] == at) sum += top_diff[from];
        }
      }
    }
    bottom_diff[i] = sum;
  }
};

// The same sums for a processor with few threads; bottom_diff was 0 before. An element is a plane
// of the bottom.
struct RoiMaxScatter {
  RoiPoolShape shape;
  const float* regions;
  const int32_t* place;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t plane) const {
    const int64_t image = plane / shape.channels, c = plane % shape.channels;
    const int64_t bins = shape.pooled_h * shape.pooled_w;
    float* to = bottom_diff + plane * shape.height * shape.width;
    for (int64_t r = 0; r < shape.regions; ++r) {
      if (shape.ImageOf(regions + r * 5) != image) continue;
      const int64_t begin = (r * shape.channels + c) * bins;
      for (int64_t k = begin; k < begin + bins; ++k) {
        if (place[k] >= 0) to[place[k]] += top_diff[k];
      }
    }
  }
};

// Bin (py, px) of a region in position-sensitive average pooling. The region has no rounded
// corners in the bottom, and at least a tenth of a pixel.
MILLRACE_HOST_DEVICE RoiBin SensitiveBin(const RoiPoolShape& shape, const float* region, int64_t py,
                                         int64_t px) {
  // Rounded once, on every processor: an edge must not change its pixel with the instruction set.
  const float x0 = roundf(region[1]) * shape.scale, y0 = roundf(region[2]) * shape.scale;
  const float width = fmaf(roundf(region[3]) + 1, shape.scale, -x0);
  const float height = fmaf(roundf(region[4]) + 1, shape.scale, -y0);
  const float step_x = (width > 0.1f ? width : 0.1f) / static_cast<float>(shape.pooled_w);
  const float step_y = (height > 0.1f ? height : 0.1f) / static_cast<float>(shape.pooled_h);
  const auto edge = [](int64_t bin, float step, float begin) {
    return fmaf(static_cast<float>(bin), step, begin);
  };
  return {Clamp(PixelIndex(floorf(edge(py, step_y, y0))), 0, shape.height),
          Clamp(PixelIndex(ceilf(edge(py + 1, step_y, y0))), 0, shape.height),
          Clamp(PixelIndex(floorf(edge(px, step_x, x0))), 0, shape.width),
          Clamp(PixelIndex(ceilf(edge(px + 1, step_x, x0))), 0, shape.width)};
}

// An element is a value of the top: the mean of its bin in the channel of the bottom that belongs
// to the bin; 0 if the bin is empty.
struct RoiSensitiveForward {
  RoiPoolShape shape;
  const float* bottom;
  const float* regions;
  float* top;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t px = i % shape.pooled_w, py = i / shape.pooled_w % shape.pooled_h;
    const int64_t bins = shape.pooled_h * shape.pooled_w;
    const float* region = regions + i / bins / shape.top_channels * 5;
    const RoiBin bin = SensitiveBin(shape, region, py, px);
    const int64_t c = i % (shape.top_channels * bins);  // channels of the bottom have this order
    const float* in =
        bottom + (shape.ImageOf(region) * shape.channels + c) * shape.height * shape.width;
    float sum = 0;
    for (int64_t row = bin.y0; row < bin.y1; ++row) {
      for (int64_t column = bin.x0; column < bin.x1; ++column)
        sum += in[row * shape.width + column];
    }
    const int64_t area = bin.area();
    top[i] = area == 0 ? 0.0f : sum / static_cast<float>(area);
  }
};

// An element is a value of the bottom: the sum over the regions of its image whose bin for this
// channel it is in.
struct RoiSensitiveGather {
  RoiPoolShape shape;
  const float* regions;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % shape.width, row = i / shape.width % shape.height;
    const int64_t plane = i / (shape.height * shape.width);
    const int64_t image = plane / shape.channels, c = plane % shape.channels;
    const int64_t px = c % shape.pooled_w, py = c / shape.pooled_w % shape.pooled_h;
    float sum = 0;
    for (int64_t r = 0; r < shape.regions; ++r) {
      const float* region = regions + r * 5;
      if (shape.ImageOf(region) != image) continue;
      const RoiBin bin = SensitiveBin(shape, region, py, px);
      if (row < bin.y0 || row >= bin.y1 || column < bin.x0 || column >= bin.x1) continue;
      sum += top_diff[r * shape.channels + c] / static_cast<float>(bin.area());
    }
    bottom_diff[i] = sum;
  }
};

// The same sums for a processor with few threads; bottom_diff was 0 before. An element is a plane
// of the bottom.
struct RoiSensitiveScatter {
  RoiPoolShape shape;
  const float* regions;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t plane) const {
    const int64_t image = plane / shape.channels, c = plane % shape.channels;
    const int64_t px = c % shape.pooled_w, py = c / shape.pooled_w % shape.pooled_h;
    float* to = bottom_diff + plane * shape.height * shape.width;
    for (int64_t r = 0; r < shape.regions; ++r) {
      const float* region = regions + r * 5;
      if (shape.ImageOf(region) != image) continue;
      const RoiBin bin = SensitiveBin(shape, region, py, px);
      if (bin.area() == 0) continue;
      const float diff = top_diff[r * shape.channels + c] / static_cast<float>(bin.area());
      for (int64_t row = bin.y0; row < bin.y1; ++row) {
        for (int64_t column = bin.x0; column < bin.x1; ++column) {
          to[row * shape.width + column] += diff;
        }
      }
    }
  }
};

// Kernels (device/kernel.h) of the BoxAnnotatorOHEM layer.

// An element is a region: position s of item n, of `area` positions per item.
struct KeepHardRegions {
  int64_t count, area, channels;  // of regions; positions of an item; of the weights
  int64_t kept;                   // regions of each image
  float ignored;                  // the label of the others
  const float* regions;           // [items][5][area]
  const float* loss;              // [items][1][area]
  const float* labels;            // the same
  const float* weights;           // [items][channels][area]
  float* top_labels;
  float* top_weights;

  MILLRACE_HOST_DEVICE float ImageOf(int64_t i) const {
    return regions[i / area * 5 * area + i % area];
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float image = ImageOf(i), own = loss[i];
    int64_t harder = 0;
    for (int64_t k = 0; k < count; ++k) {
      const bool before = loss[k] > own || (!(own > loss[k]) && k < i);
      harder += before && ImageOf(k) == image;
    }
    const bool keep = harder < kept;
    top_labels[i] = keep ? labels[i] : ignored;
    const int64_t begin = i / area * channels * area + i % area;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = begin + c * area;
      top_weights[at] = keep ? weights[at] : 0.0f;
    }
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_DETECTION_ROI_KERNELS_H_
