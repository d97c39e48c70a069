// Kernels (device/kernel.h) of the Upsample layer. Planes are {height, width}.
#ifndef MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_
#define MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(top);
  }
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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(places.mask), visit(bottom), visit(top);
  }
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
  template <typename Visit>
  void Pointers(Visit visit) {
    visit(places.mask), visit(top_diff), visit(bottom_diff);
  }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    bottom_diff[i] = top_diff[places.At(i)];
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_
