// Max pooling for channels-innermost memory orders. oneDNN 2.6's kernels for processors without
// AVX-512 take ten to thirty times as long.
#ifndef MILLRACE_NN_LAYERS_MAX_POOL_KERNEL_H_
#define MILLRACE_NN_LAYERS_MAX_POOL_KERNEL_H_

#include <cstdint>

#include "nn/layers/pooling_layer.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner. `which`
// receives, per top value, the window position (row * kernel width + column) of the first largest
// value.
void MaxPoolForward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                    const SpatialView& top_view, const float* bottom, float* top, int32_t* which);

// Writes every value of `bottom_diff`: the sum of top_diff over the windows whose `which` selects
// this value.
void MaxPoolBackward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                     const SpatialView& top_view, const float* top_diff, const int32_t* which,
                     float* bottom_diff);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_MAX_POOL_KERNEL_H_
