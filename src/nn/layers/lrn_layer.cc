#include "nn/layers/lrn_layer.h"

namespace millrace::inline nn {

void LrnLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::LRNParameter& param = param_.lrn_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "LRN needs 4 axes (N, C, H, W), '", param_.bottom(0), "' has shape ",
                     ShapeText(bottom[0]->shape()));
  }
  if (param.local_size() % 2 == 0) {
    throw FieldError("lrn_param.local_size", param.local_size(), " given, expected an odd number");
  }
}

}  // namespace millrace::inline nn
