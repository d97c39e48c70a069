// The host's loops of max and average pooling.
#ifndef MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_
#define MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_

#include <algorithm>
#include <cstdint>

#include "base/simd.h"
#include "nn/layers/pooling/pooling_layer.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// Max pooling for channels-innermost memory orders. oneDNN 2.6's kernels for processors without
// AVX-512 take ten to thirty times as long.

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner. `which`
// receives, per top value, the window position (row * kernel width + column) of the first largest
// value.
void HostMaxPoolForward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                        const SpatialView& top_view, const float* bottom, float* top,
                        int32_t* which);

// Writes every value of `bottom_diff`: the sum of top_diff over the windows whose `which` selects
// this value.
void HostMaxPoolBackward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                         const SpatialView& top_view, const float* top_diff, const int32_t* which,
                         float* bottom_diff);

// Average pooling for channels-innermost memory orders, with Caffe's divisors (pooling_layer.h).
// oneDNN 2.6's kernels for processors without AVX-512 take three times as long.

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner.
void AveragePoolForward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                        const SpatialView& top_view, const float* bottom, float* top);

// Writes every value of `bottom_diff`.
void AveragePoolBackward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                         const SpatialView& top_view, const float* top_diff, float* bottom_diff);

// The part of the bottom that a pooling window covers, and the windows that cover a position of the
// bottom, along one axis (0: height, 1: width). For the pooling kernels for channels-innermost
// memory orders.
struct Range {
  int64_t begin, end;
};

// The part of window `index` that lies inside the bottom.
inline Range WindowOf(const PoolingGeometry& g, int axis, int64_t index, int64_t size) {
  const int64_t begin = index * g.stride[axis] - g.pad[axis];
  return {std::max<int64_t>(begin, 0), std::min(begin + g.kernel[axis], size)};
}

// The windows that contain bottom position `position`. Divides, so callers hoist it out of inner
// loops.
inline Range WindowsOver(const PoolingGeometry& g, int axis, int64_t position, int64_t windows) {
  const int64_t shifted = position + g.pad[axis];
  const int64_t first =
      shifted < g.kernel[axis] ? 0 : (shifted - g.kernel[axis]) / g.stride[axis] + 1;
  return {first, std::min(shifted / g.stride[axis] + 1, windows)};
}

// The best instruction set, except AVX-512 if a position's channels do not fill one of its vectors.
inline Simd FittingSimd(int64_t inner) {
  const Simd best = BestSimd();
  return best == Simd::kAvx512 && inner < Avx512::kLanes ? Simd::kAvx2 : best;
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_
