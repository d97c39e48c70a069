// A convolution with any number of spatial axes, as matrix products of weights and columns
// (column_kernels.h): for shapes that the libraries have no convolution for.
#ifndef MILLRACE_NN_LAYERS_COLUMN_CONVOLUTION_H_
#define MILLRACE_NN_LAYERS_COLUMN_CONVOLUTION_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "millrace/queue.h"
#include "nn/layers/column_shape.h"
#include "nn/layers/convolution_plan.h"

namespace millrace::inline nn {

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

#endif  // MILLRACE_NN_LAYERS_COLUMN_CONVOLUTION_H_
