// Kernel (device/kernel.h) of the Tile layer.
#ifndef MILLRACE_NN_LAYERS_SHAPE_TILE_KERNELS_H_
#define MILLRACE_NN_LAYERS_SHAPE_TILE_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"
#include "device/divisor.h"

namespace millrace::inline nn {

// The bottom is {outer, inner}, the top {outer, tiles, inner}. An element is a value of the bottom.
struct TileGradient {
  int64_t tiles;
  Divisor inner;
  const float* top_diff;
  float* bottom_diff;

  int64_t Extent(int64_t count) const { return count * tiles; }
  template <typename Index>
  MILLRACE_HOST_DEVICE void operator()(Index i) const {
    const Index row = i / inner, copies = static_cast<Index>(tiles);
    const float* diff = top_diff + row * copies * inner + (i - row * inner);
    float sum = 0;
    for (Index t = 0; t < copies; ++t) sum += diff[t * inner];
    bottom_diff[i] = sum;
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_SHAPE_TILE_KERNELS_H_
