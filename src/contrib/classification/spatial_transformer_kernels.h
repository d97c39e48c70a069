// Kernels (device/kernel.h) of the SpatialTransformer layer.
#ifndef MILLRACE_CONTRIB_CLASSIFICATION_SPATIAL_TRANSFORMER_KERNELS_H_
#define MILLRACE_CONTRIB_CLASSIFICATION_SPATIAL_TRANSFORMER_KERNELS_H_

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "contrib/detection/roi_kernels.h"

namespace millrace::inline contrib {

// The matrix of each image: numbers of `theta`, {images, given}, and fixed ones.
struct AffineMatrix {
  int64_t given;
  int32_t place[6];  // in a row of theta; -1: fixed
  float fixed[6];
  const float* theta;  // null: all are fixed

  MILLRACE_HOST_DEVICE float At(int64_t image, int entry) const {
    return place[entry] < 0 ? fixed[entry] : theta[image * given + place[entry]];
  }
};

// A place between pixels, and its neighbours along one axis.
struct SamplePlace {
  int64_t low;  // pixel; low + 1 is the other one
  float share;  // the weight of low + 1

  MILLRACE_HOST_DEVICE static SamplePlace Of(float at) {
    const float low = floorf(at);
    const int64_t pixel = PixelIndex(low);
    return {pixel, at - low};
  }
  MILLRACE_HOST_DEVICE float Weight(int64_t pixel) const {
    return pixel == low ? 1 - share : pixel == low + 1 ? share : 0.0f;
  }
};

struct SamplePoint {
  SamplePlace y, x;
};

// The sizes, and the map from values of the top to places of the bottom.
struct TransformerShape {
  int64_t images, channels, height, width;  // of the bottom
  int64_t top_height, top_width;
  AffineMatrix matrix;

  // Coordinates of the top, from -1 (inclusive) to 1 (exclusive).
  MILLRACE_HOST_DEVICE float RowOf(int64_t row) const {
    return static_cast<float>(2 * row) / static_cast<float>(top_height) - 1;
  }
  MILLRACE_HOST_DEVICE float ColumnOf(int64_t column) const {
    return static_cast<float>(2 * column) / static_cast<float>(top_width) - 1;
  }
  // The row of the bottom, in pixels, for axis 0, and the column for axis 1. Rounded alike on every
  // processor: a pixel must not change with the instruction set.
  MILLRACE_HOST_DEVICE float Place(int64_t image, int axis, int64_t row, int64_t column) const {
    const float by_row = matrix.At(image, 3 * axis), by_column = matrix.At(image, 3 * axis + 1);
    const float at =
        fmaf(by_row, RowOf(row), fmaf(by_column, ColumnOf(column), matrix.At(image, 3 * axis + 2)));
    return (at + 1) * 0.5f * static_cast<float>(axis == 0 ? height : width);
  }
  MILLRACE_HOST_DEVICE SamplePoint PointOf(int64_t image, int64_t row, int64_t column) const {
    return {SamplePlace::Of(Place(image, 0, row, column)),
            SamplePlace::Of(Place(image, 1, row, column))};
  }
  // The distance of the places of two neighbours in a row of the top.
  MILLRACE_HOST_DEVICE float Step(int64_t image, int axis) const {
    return matrix.At(image, 3 * axis + 1) * static_cast<float>(axis == 0 ? height : width) /
           static_cast<float>(top_width);
  }
  MILLRACE_HOST_DEVICE bool InRow(int64_t row) const { return row >= 0 && row < height; }
  MILLRACE_HOST_DEVICE bool InColumn(int64_t column) const { return column >= 0 && column < width; }
  // The value of a plane at a pixel; 0 outside.
  MILLRACE_HOST_DEVICE float Value(const float* plane, int64_t row, int64_t column) const {
    return InRow(row) && InColumn(column) ? plane[row * width + column] : 0.0f;
  }
};

// An element is a value of the top.
struct TransformerForward {
  TransformerShape shape;
  const float* bottom;
  float* top;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % shape.top_width, row = i / shape.top_width % shape.top_height;
    const int64_t plane = i / (shape.top_width * shape.top_height), image = plane / shape.channels;
    const auto [y, x] = shape.PointOf(image, row, column);
    const float* in = bottom + plane * shape.height * shape.width;
    float sum = 0;
    for (int a = 0; a < 2; ++a) {
      const int64_t at = y.low + a;
      sum += y.Weight(at) * ((1 - x.share) * shape.Value(in, at, x.low) +
                             x.share * shape.Value(in, at, x.low + 1));
    }
    top[i] = sum;
  }
};

// Values of the top in one of its rows.
struct ColumnRange {
  int64_t begin, end;

  // Leaves those whose place, first + step * column, is less than a pixel from `pixel`, and some
  // more: places are rounded to less than kMinStep.
  MILLRACE_HOST_DEVICE void Limit(float first, float step, int64_t pixel) {
    constexpr float kMinStep = 1e-2f;
    if (fabsf(step) < kMinStep) return;
    const float a = (static_cast<float>(pixel - 1) - first) / step;
    const float b = (static_cast<float>(pixel + 1) - first) / step;
    const int64_t low = PixelIndex(floorf(a < b ? a : b)) - 1;
    const int64_t high = PixelIndex(ceilf(a < b ? b : a)) + 2;
    if (low > begin) begin = low;
    if (high < end) end = high;
  }
};

// An element is a value of the bottom: the sum of diff * weight over the top, in its order.
struct TransformerGather {
  TransformerShape shape;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t at_x = i % shape.width, at_y = i / shape.width % shape.height;
    const int64_t plane = i / (shape.width * shape.height), image = plane / shape.channels;
    const float* diff = top_diff + plane * shape.top_height * shape.top_width;
    float sum = 0;
    for (int64_t row = 0; row < shape.top_height; ++row) {
      ColumnRange range{0, shape.top_width};
      for (int axis = 0; axis < 2; ++axis) {
        range.Limit(shape.Place(image, axis, row, 0), shape.Step(image, axis),
                    axis == 0 ? at_y : at_x);
      }
      for (int64_t column = range.begin; column < range.end; ++column) {
        const auto [y, x] = shape.PointOf(image, row, column);
        const float weight = y.Weight(at_y) * x.Weight(at_x);
        if (weight != 0) sum += weight * diff[row * shape.top_width + column];
      }
    }
    bottom_diff[i] = sum;
  }
};

// The same sums for a processor with few threads; bottom_diff was 0 before. An element is a plane.
struct TransformerScatter {
  TransformerShape shape;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t plane) const {
    const int64_t image = plane / shape.channels;
    const float* diff = top_diff + plane * shape.top_height * shape.top_width;
    float* to = bottom_diff + plane * shape.height * shape.width;
    for (int64_t i = 0; i < shape.top_height * shape.top_width; ++i) {
      const int64_t row = i / shape.top_width, column = i % shape.top_width;
      const auto [y, x] = shape.PointOf(image, row, column);
      for (int64_t at_y = y.low; at_y <= y.low + 1; ++at_y) {
        for (int64_t at_x = x.low; at_x <= x.low + 1; ++at_x) {
          if (!shape.InRow(at_y) || !shape.InColumn(at_x)) continue;
          to[at_y * shape.width + at_x] += y.Weight(at_y) * x.Weight(at_x) * diff[i];
        }
      }
    }
  }
};

// A row is a number of theta: its gradient.
struct TransformerOfTheta {
  TransformerShape shape;
  const float* bottom;
  const float* top_diff;
  float* theta_diff;

  template <typename Team>
  MILLRACE_HOST_DEVICE void operator()(Team& team, int64_t number) const {
    const int64_t image = number / shape.matrix.given, place = number % shape.matrix.given;
    int entry = 0;
    while (shape.matrix.place[entry] != place) ++entry;
    const int64_t area = shape.top_height * shape.top_width, count = shape.channels * area;
    const double sum =
        team.Sum(count, [&](int64_t i) { return Term(image, image * count + i, entry); });
    team.Once([&] { theta_diff[number] = static_cast<float>(sum); });
  }
  // What value i of the top adds to the gradient of `entry`.
  MILLRACE_HOST_DEVICE float Term(int64_t image, int64_t i, int entry) const {
    const int64_t column = i % shape.top_width, row = i / shape.top_width % shape.top_height;
    const int64_t plane = i / (shape.top_width * shape.top_height);
    const auto [y, x] = shape.PointOf(image, row, column);
    const float* in = bottom + plane * shape.height * shape.width;
    const float a = shape.Value(in, y.low, x.low), b = shape.Value(in, y.low, x.low + 1);
    const float c = shape.Value(in, y.low + 1, x.low), d = shape.Value(in, y.low + 1, x.low + 1);
    const bool of_row = entry < 3;
    const float slope = of_row ? (1 - x.share) * (c - a) + x.share * (d - b)
                               : (1 - y.share) * (b - a) + y.share * (d - c);
    const float pixels = 0.5f * static_cast<float>(of_row ? shape.height : shape.width);
    const float factor = entry % 3 == 0   ? shape.RowOf(row)
                         : entry % 3 == 1 ? shape.ColumnOf(column)
                                          : 1.0f;
    return top_diff[i] * slope * pixels * factor;
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_CLASSIFICATION_SPATIAL_TRANSFORMER_KERNELS_H_
