// Kernels of Interp and Upsample.
#ifndef MILLRACE_CONTRIB_SEGMENTATION_UPSAMPLE_KERNELS_H_
#define MILLRACE_CONTRIB_SEGMENTATION_UPSAMPLE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline contrib {

// Kernels (device/kernel.h) of the Interp layer.

// Linear interpolation along an axis. The first and last values of the top are those of the
// bottom's part, [begin, begin + size).
struct InterpAxis {
  int64_t bottom;       // size of the bottom
  int64_t begin, size;  // the part of it that is enlarged
  int64_t top;          // size of the top
  float step;           // distance of neighbours of the top, in values of the bottom

  // The two values of the part between which value `index` of the top lies, and the second one's
  // weight.
  struct Pair {
    int64_t first, second;
    float weight;
  };
  MILLRACE_HOST_DEVICE Pair At(int64_t index) const {
    const float place = step * static_cast<float>(index);
    int64_t first = static_cast<int64_t>(place);
    if (first > size - 1) first = size - 1;
    const int64_t second = first + (first < size - 1);
    return {first, second, place - static_cast<float>(first)};
  }
  // The weight of value `place` of the part in value `index` of the top.
  MILLRACE_HOST_DEVICE float WeightOf(int64_t place, int64_t index) const {
    const Pair pair = At(index);
    return (place == pair.first ? 1 - pair.weight : 0.0f) +
           (place == pair.second ? pair.weight : 0.0f);
  }
  // The values [Begin, End) of the top contain all that value `place` of the part has a weight in.
  MILLRACE_HOST_DEVICE int64_t Begin(int64_t place) const {
    if (!(step > 0)) return 0;
    const auto begin = static_cast<int64_t>(static_cast<float>(place - 1) / step) - 1;
    return begin > 0 ? begin : 0;
  }
  MILLRACE_HOST_DEVICE int64_t End(int64_t place) const {
    if (!(step > 0)) return top;
    const auto end = static_cast<int64_t>(static_cast<float>(place + 1) / step) + 2;
    return end < top ? end : top;
  }
};

// An element is a value of the top.
struct InterpForward {
  InterpAxis rows, columns;
  const float* bottom;
  float* top;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const InterpAxis::Pair x = columns.At(i % columns.top);
    const InterpAxis::Pair y = rows.At(i / columns.top % rows.top);
    const float* plane =
        bottom + i / (columns.top * rows.top) * rows.bottom * columns.bottom + columns.begin;
    const float* first = plane + (rows.begin + y.first) * columns.bottom;
    const float* second = plane + (rows.begin + y.second) * columns.bottom;
    top[i] = (1 - y.weight) * ((1 - x.weight) * first[x.first] + x.weight * first[x.second]) +
             y.weight * ((1 - x.weight) * second[x.first] + x.weight * second[x.second]);
  }
};

// An element is a value of the bottom.
struct InterpGradient {
  InterpAxis rows, columns;
  const float* top_diff;
  float* bottom_diff;

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t x = i % columns.bottom - columns.begin;
    const int64_t y = i / columns.bottom % rows.bottom - rows.begin;
    const float* plane = top_diff + i / (rows.bottom * columns.bottom) * rows.top * columns.top;
    float sum = 0;
    if (x >= 0 && x < columns.size && y >= 0 && y < rows.size) {
      for (int64_t row = rows.Begin(y); row < rows.End(y); ++row) {
        const float weight = rows.WeightOf(y, row);
        if (weight == 0) continue;
        for (int64_t column = columns.Begin(x); column < columns.End(x); ++column) {
          sum += weight * columns.WeightOf(x, column) * plane[row * columns.top + column];
        }
      }
    }
    bottom_diff[i] = sum;
  }
};

// Kernels (device/kernel.h) of the Upsample layer. Planes are {height, width}.

// Every value of the bottom becomes a block of scale_h x scale_w values.
struct UpsampleShape {
  Divisor height, width;  // of a plane of the bottom
  Divisor scale_h, scale_w;

  // The position in the top of the first value of a bottom value's block.
  template <typename Index>
  MILLRACE_HOST_DEVICE Index BlockOf(Index i) const {
    const Index row = i / width, x = i - row * width;  // rows of all planes
    return (row * scale_h * width + x) * scale_w;
  }
};

// An element is a value of the top.
struct UpsampleNearest {
  UpsampleShape shape;
  const float* bottom;
  float* top;

  static int64_t Extent(int64_t count) { return count; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index block = i / shape.scale_w;  // of the top's rows, as wide as a value of the bottom
    const Index row = block / shape.width / shape.scale_h;
    top[i] = bottom[row * shape.width + block % shape.width];
  }
};

// An element is a value of the bottom.
struct UpsampleNearestGradient {
  UpsampleShape shape;
  const float* top_diff;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return count * shape.scale_h * shape.scale_w; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const float* block = top_diff + shape.BlockOf(i);
    float sum = 0;
    const Index top_width = static_cast<Index>(shape.width) * shape.scale_w;
    for (Index y = 0; y < static_cast<Index>(shape.scale_h); ++y) {
      for (Index x = 0; x < static_cast<Index>(shape.scale_w); ++x) {
        sum += block[y * top_width + x];
      }
    }
    bottom_diff[i] = sum;
  }
};

// Places in planes of the top: of value i of the bottom, mask[i]. A place out of range stands for
// place 0 here and is an error of the layer.
struct MaskedPlaces {
  Divisor from_plane, to_plane;  // values of a plane of the bottom and of the top
  const float* mask;

  int64_t Extent(int64_t count) const { return count / from_plane * to_plane; }
  template <typename Index>
  MILLRACE_HOST_DEVICE Index At(Index i) const {
    const bool valid = mask[i] >= 0 && mask[i] < static_cast<float>(int64_t{to_plane});
    return i / from_plane * to_plane + (valid ? static_cast<Index>(mask[i]) : 0);
  }
};

// An element is a value of the bottom: top[place] = bottom. The top was 0 before.
struct UpsampleByMask {
  MaskedPlaces places;
  const float* bottom;
  float* top;

  int64_t Extent(int64_t count) const { return places.Extent(count); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    top[places.At(i)] = bottom[i];
  }
};

// An element is a value of the bottom: bottom_diff = top_diff[place].
struct UpsampleByMaskGradient {
  MaskedPlaces places;
  const float* top_diff;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return places.Extent(count); }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    bottom_diff[i] = top_diff[places.At(i)];
  }
};

}  // namespace millrace::inline contrib

#endif  // MILLRACE_CONTRIB_SEGMENTATION_UPSAMPLE_KERNELS_H_
