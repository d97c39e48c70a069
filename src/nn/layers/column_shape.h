// The shape of the columns (column_kernels.h) of a convolution.
#ifndef MILLRACE_NN_LAYERS_COLUMN_SHAPE_H_
#define MILLRACE_NN_LAYERS_COLUMN_SHAPE_H_

#include "nn/layers/column_kernels.h"
#include "nn/layers/convolution_geometry.h"

namespace millrace::inline nn {

// `bottom` and `top` are folded shapes of the geometry's convolution. Throws FieldError for more
// spatial axes than ColumnShape::kMaxAxes.
ColumnShape ColumnsOf(const ConvolutionGeometry& geometry, const Shape& bottom, const Shape& top);

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_COLUMN_SHAPE_H_
