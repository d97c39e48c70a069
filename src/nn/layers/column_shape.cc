#include "nn/layers/column_shape.h"

#include "base/error.h"

namespace millrace::inline nn {

ColumnShape ColumnsOf(const ConvolutionGeometry& g, const Shape& bottom, const Shape& top) {
  if (g.axes() > ColumnShape::kMaxAxes) {
    throw FieldError("bottom", "has ", g.spatial, " spatial axes, expected at most ",
                     ColumnShape::kMaxAxes);
  }
  ColumnShape shape{g.axes(), 1, 1, 1, {}, {}, {}, {}, {}, {}};
  for (int axis = 0; axis < g.axes(); ++axis) {
    shape.in[axis] = bottom[2 + axis];
    shape.out[axis] = top[2 + axis];
    shape.kernel[axis] = g.kernel[axis];
    shape.stride[axis] = g.stride[axis];
    shape.pad[axis] = g.pad[axis];
    shape.dilation[axis] = g.dilation[axis];
    shape.taps = shape.taps * g.kernel[axis];
    shape.windows = shape.windows * top[2 + axis];
    shape.plane = shape.plane * bottom[2 + axis];
  }
  return shape;
}

}  // namespace millrace::inline nn
