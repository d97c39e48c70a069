// Kernel (device/kernel.h) of the Tile layer.
#ifndef MILLRACE_NN_LAYERS_TILE_KERNELS_H_
#define MILLRACE_NN_LAYERS_TILE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// The bottom is {outer, inner}, the top {outer, tiles, inner}. An element is a value of the bottom.
struct TileGradient {
  int64_t tiles, inner;
  const float* top_diff;
  float* bottom_diff;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(top_diff), visit(bottom_diff);
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float* diff = top_diff + i / inner * tiles * inner + i % inner;
    float sum = 0;
    for (int64_t t = 0; t < tiles; ++t) sum += diff[t * inner];
    bottom_diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_TILE_KERNELS_H_
