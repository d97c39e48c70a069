// The host's loops of max and average pooling.
#ifndef MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_
#define MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_

#include <cstdint>

#include "base/simd.h"
#include "nn/layers/pooling/pooling_shape.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// Max pooling for channels-innermost memory orders. oneDNN 2.6's kernels for processors without
// AVX-512 take ten to thirty times as long.

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner. `which`
// receives, per top value, the window position (row * kernel width + column) of the first largest
// value.
void HostMaxPoolForward(const PoolingShape& shape, const SpatialView& bottom_view,
                        const SpatialView& top_view, const float* bottom, float* top,
                        int32_t* which);

// Writes every value of `bottom_diff`: the sum of top_diff over the windows whose `which` selects
// this value.
void HostMaxPoolBackward(const PoolingShape& shape, const SpatialView& bottom_view,
                         const SpatialView& top_view, const float* top_diff, const int32_t* which,
                         float* bottom_diff);

// Average pooling for channels-innermost memory orders, with Caffe's divisors (pooling_layer.h).
// oneDNN 2.6's kernels for processors without AVX-512 take three times as long.

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner.
void AveragePoolForward(const PoolingShape& shape, const SpatialView& bottom_view,
                        const float* bottom, float* top);

// Writes every value of `bottom_diff`.
void AveragePoolBackward(const PoolingShape& shape, const SpatialView& top_view,
                         const float* top_diff, float* bottom_diff);

// Positions of the bottom, or windows, along one axis.
struct Range {
  int64_t begin, end;
};

// The part of window `index` that lies inside the bottom.
inline Range WindowOf(const PoolingShape& shape, int axis, int64_t index) {
  return {shape.Begin(axis, index), shape.End(axis, index)};
}
// The windows that contain a position of the bottom. Divides, so callers hoist it out of inner
// loops.
inline Range WindowsOver(const PoolingShape& shape, int axis, int64_t position) {
  return {shape.FirstOver(axis, position), shape.EndOver(axis, position)};
}

// The best instruction set, except AVX-512 if a position's channels do not fill one of its vectors.
inline Simd FittingSimd(int64_t inner) {
  const Simd best = BestSimd();
  return best == Simd::kAvx512 && inner < Avx512::kLanes ? Simd::kAvx2 : best;
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_HOST_POOLING_H_
