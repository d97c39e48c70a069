// Convolution geometries for the tests of convolution kernels.
#ifndef MILLRACE_TEST_NN_CONVOLUTION_GEOMETRY_H_
#define MILLRACE_TEST_NN_CONVOLUTION_GEOMETRY_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "nn/layers/convolution/convolution_kernel.h"
#include "test/nn/reference.h"
#include "test/support/blob_values.h"

namespace millrace::test {

// Shape of `g`, for an input with `block` interleaved channels.
inline ConvolutionShape ShapeOf(const reference::Convolution& g, int64_t block) {
  return {g.n,       g.groups,   block,      g.c,        g.h,        g.w,     g.outputs, g.out_h(),
          g.out_w(), g.kernel_h, g.kernel_w, g.stride_h, g.stride_w, g.pad_h, g.pad_w};
}

inline std::string TextOf(const reference::Convolution& g, int64_t block) {
  return StrCat(g.n, "x", g.c, "x", g.h, "x", g.w, " to ", g.outputs, ", block ", block,
                ", groups ", g.groups, ", kernel ", g.kernel_h, "x", g.kernel_w, ", stride ",
                g.stride_h, "x", g.stride_w, ", pad ", g.pad_h, "x", g.pad_w);
}

// Index of value p of channel c, in a layout with blocks of `block` channels of `area` values each.
inline int64_t PlaceOf(int64_t c, int64_t p, int64_t area, int64_t block) {
  return (c / block * area + p) * block + c % block;
}

// Converts plain order, with `channels` counted over all images, to this blocked layout. The data
// begins at index `offset` of the result.
inline std::vector<float> Blocked(const Array& plain, int64_t channels, int64_t area, int64_t block,
                                  int64_t offset = 0) {
  std::vector<float> blocked(plain.size() + offset);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < area; ++p) {
      blocked[offset + PlaceOf(c, p, area, block)] = static_cast<float>(plain[c * area + p]);
    }
  }
  return blocked;
}

struct GeometryLimits {
  uint64_t channel_blocks = 1;  // of the input, in each group
  int64_t outputs_unit = 1;     // outputs per group are a multiple of this,
  uint64_t outputs_units = 1;   // up to this number of units
  uint64_t stride = 1;
};

inline reference::Convolution RandomGeometry(int64_t block, const GeometryLimits& most, Rng* rng) {
  reference::Convolution g;
  g.n = 1 + rng->Below(3), g.groups = 1 + rng->Below(2);
  g.c = g.groups * block * (1 + rng->Below(most.channel_blocks));
  g.outputs = g.groups * most.outputs_unit * (1 + rng->Below(most.outputs_units));
  g.kernel_h = 1 + rng->Below(5), g.kernel_w = 1 + rng->Below(5);
  g.pad_h = rng->Below(4), g.pad_w = rng->Below(4);
  g.stride_h = 1 + rng->Below(most.stride), g.stride_w = 1 + rng->Below(most.stride);
  g.h = std::max<int64_t>(g.kernel_h - 2 * g.pad_h, 1) + static_cast<int64_t>(rng->Below(12));
  g.w = std::max<int64_t>(g.kernel_w - 2 * g.pad_w, 1) + static_cast<int64_t>(rng->Below(12));
  return g;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_CONVOLUTION_GEOMETRY_H_
