// Convolutions as matrix products of unfolded windows.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_CONVOLUTION_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_CONVOLUTION_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "millrace/queue.h"
#include "nn/layers/convolution/column_kernels.h"
#include "nn/layers/convolution/convolution_geometry.h"

namespace millrace::inline nn {

// The shape of the columns (column_kernels.h) of a convolution.

// `bottom` and `top` are folded shapes of the geometry's convolution. Throws FieldError for more
// spatial axes than ColumnShape::kMaxAxes.
ColumnShape ColumnsOf(const ConvolutionGeometry& geometry, const Shape& bottom, const Shape& top);

// A convolution with any number of spatial axes, as matrix products of weights and columns
// (column_kernels.h): for shapes that the libraries have no convolution for.

// c = a b, or c = c + a b if `add`, for row-major matrices: a {m, k}, or {k, m} if transpose_a;
// b {k, n}, or {n, k} if transpose_b; c {m, n}. Enqueues the work.
using MatrixProduct =
    std::function<void(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                       const float* a, const float* b, bool add, float* c)>;

// `bottom`: a folded shape. `product` enqueues on `queue`, which outlives the plan. Throws
// FieldError for too many axes.
std::unique_ptr<ConvolutionPlan> PlanColumnConvolution(const ConvolutionGeometry& geometry,
                                                       const Shape& bottom, Queue& queue,
                                                       MatrixProduct product);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_COLUMN_CONVOLUTION_H_
