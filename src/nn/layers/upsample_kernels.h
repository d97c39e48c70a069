// Kernels (device/kernel.h) of the Upsample layer. Planes are {height, width}.
#ifndef MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_
#define MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// Every value of the bottom becomes a block of scale_h x scale_w values.
struct UpsampleShape {
  int64_t height, width;  // of a plane of the bottom
  int64_t scale_h, scale_w;

  // The position in the top of the first value of a bottom value's block.
  MILLRACE_HOST_DEVICE int64_t BlockOf(int64_t i) const {
    const int64_t x = i % width, row = i / width;  // rows of all planes
    return (row * scale_h * width + x) * scale_w;
  }
};

// An element is a value of the top.
struct UpsampleNearest {
  UpsampleShape shape;
  const float* bottom;
  float* top;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t top_width = shape.width * shape.scale_w;
    const int64_t row = i / top_width / shape.scale_h;
    top[i] = bottom[row * shape.width + i % top_width / shape.scale_w];
  }
};

// An element is a value of the bottom.
struct UpsampleNearestGradient {
  UpsampleShape shape;
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float* block = top_diff + shape.BlockOf(i);
    float sum = 0;
    for (int64_t y = 0; y < shape.scale_h; ++y) {
      for (int64_t x = 0; x < shape.scale_w; ++x) {
        sum += block[y * shape.width * shape.scale_w + x];
      }
    }
    bottom_diff[i] = sum;
  }
};

// Places in planes of the top: of value i of the bottom, mask[i]. A place out of range stands for
// place 0 here and is an error of the layer.
struct MaskedPlaces {
  int64_t from_plane, to_plane;  // values of a plane of the bottom and of the top
  const float* mask;

  MILLRACE_HOST_DEVICE int64_t At(int64_t i) const {
    const bool valid = mask[i] >= 0 && mask[i] < static_cast<float>(to_plane);
    return i / from_plane * to_plane + (valid ? static_cast<int64_t>(mask[i]) : 0);
  }
};

// An element is a value of the bottom: top[place] = bottom. The top was 0 before.
struct UpsampleByMask {
  MaskedPlaces places;
  const float* bottom;
  float* top;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(places.mask), visit(bottom), visit(top);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { top[places.At(i)] = bottom[i]; }
};

// An element is a value of the bottom: bottom_diff = top_diff[place].
struct UpsampleByMaskGradient {
  MaskedPlaces places;
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(places.mask), visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const { bottom_diff[i] = top_diff[places.At(i)]; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_UPSAMPLE_KERNELS_H_
