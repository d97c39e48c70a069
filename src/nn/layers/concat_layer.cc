#include "nn/layers/concat_layer.h"

#include "nn/layers/old_axis_field.h"
#include "nn/layout.h"

namespace millrace::inline nn {

void ConcatLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  const caffe::ConcatParameter& param = param_.concat_param();
  axis_ = AxisOf(*bottom[0], "concat_param", param.has_axis(), param.axis(), "concat_dim",
                 param.has_concat_dim(), param.concat_dim());
  Shape shape = bottom[0]->shape();
  Layout layout = bottom[0]->layout();
  for (size_t i = 1; i < bottom.size(); ++i) {
    Shape expected = bottom[i]->shape();
    if (expected.size() == shape.size()) expected[axis_] = shape[axis_];
    if (expected != shape) {
      throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                       ", expected that of bottom[0], ", ShapeText(bottom[0]->shape()),
                       ", in all axes but ", axis_);
    }
    if (bottom[i]->layout() != layout) layout = Layout::kPlain;
    shape[axis_] += bottom[i]->dim(axis_);
  }
  top[0]->Reshape(shape, FittingLayout(layout, shape));
}

}  // namespace millrace::inline nn
