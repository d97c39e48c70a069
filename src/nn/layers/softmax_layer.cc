#include "nn/layers/softmax_layer.h"

namespace millrace::inline nn {

AxisView::AxisView(const Blob& blob, int axis, const char* field) {
  if (axis < -blob.num_axes() || axis >= blob.num_axes()) {
    throw FieldError(field, axis, " is not an axis of a blob with ", blob.num_axes(), " axes");
  }
  const int canonical = axis < 0 ? axis + blob.num_axes() : axis;
  outer = blob.count(0, canonical);
  classes = blob.dim(canonical);
  inner = blob.count(canonical + 1);
}

void SoftmaxLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  view_ = AxisView(*bottom[0], param_.softmax_param().axis(), "softmax_param.axis");
  if (top[0] != bottom[0]) top[0]->ReshapeLike(*bottom[0]);
}

}  // namespace millrace::inline nn
