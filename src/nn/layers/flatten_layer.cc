#include "nn/layers/flatten_layer.h"

#include "nn/layers/axis_field.h"

namespace millrace::inline nn {

Shape FlattenLayer::TopShape(const Blob& bottom) const {
  const caffe::FlattenParameter& param = param_.flatten_param();
  const int begin = CheckedAxis(bottom, param.axis(), "flatten_param.axis");
  const int end = CheckedAxis(bottom, param.end_axis(), "flatten_param.end_axis");
  if (end < begin) {
    throw FieldError("flatten_param.end_axis", param.end_axis(),
                     " given, expected an axis that is not before axis ", begin);
  }
  const Shape& from = bottom.shape();
  Shape shape(from.begin(), from.begin() + begin);
  shape.push_back(bottom.count(begin, end + 1));
  shape.insert(shape.end(), from.begin() + end + 1, from.end());
  return shape;
}

namespace {

const RegisterLayer<FlattenLayer> registered("Flatten");

}  // namespace
}  // namespace millrace::inline nn
