// Average pooling for channels-innermost memory orders, with Caffe's divisors (pooling_layer.h).
// oneDNN 2.6's kernels for processors without AVX-512 take three times as long.
#ifndef MILLRACE_NN_LAYERS_AVERAGE_POOL_KERNEL_H_
#define MILLRACE_NN_LAYERS_AVERAGE_POOL_KERNEL_H_

#include "nn/layers/pooling_layer.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// `bottom` and `top` are [outer][height][width][inner] with the same outer and inner.
void AveragePoolForward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                        const SpatialView& top_view, const float* bottom, float* top);

// Writes every value of `bottom_diff`.
void AveragePoolBackward(const PoolingGeometry& geometry, const SpatialView& bottom_view,
                         const SpatialView& top_view, const float* top_diff, float* bottom_diff);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_AVERAGE_POOL_KERNEL_H_
