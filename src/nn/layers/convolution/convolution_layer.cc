#include "nn/layers/convolution/convolution_layer.h"

#include <limits>

#include "nn/filler.h"

namespace millrace::inline nn {

Arity ConvolutionLayer::arity() const {
  const int most = std::numeric_limits<int>::max();
  return {1, most, 1, most};
}

void ConvolutionLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  const caffe::ConvolutionParameter& param = param_.convolution_param();
  if (bottom.size() != top.size()) {
    throw FieldError("top", top.size(), " given, expected ", bottom.size(), ", one per bottom");
  }
  geometry_ = ReadGeometry(*bottom[0]);
  const Shape weights = geometry_.WeightShape();
  CheckFiller(param.weight_filler(), weights, "convolution_param.weight_filler");
  AddParam(weights, param.weight_filler());
  if (!geometry_.bias) return;
  CheckFiller(param.bias_filler(), {top_channels()}, "convolution_param.bias_filler");
  AddParam({top_channels()}, param.bias_filler());
}

Shape ConvolutionLayer::CheckedTopShape(const Blobs& bottom) const {
  const Shape& shape = bottom[0]->shape();
  const int axes = geometry_.channel_axis + 1 + geometry_.spatial;
  if (bottom[0]->num_axes() != axes) {
    throw FieldError("bottom", "has ", bottom[0]->num_axes(), " axes, expected ", axes);
  }
  for (const Blob* blob : bottom) {
    if (blob->shape() == shape) continue;
    throw FieldError("bottom", "shapes ", ShapeText(shape), " and ", ShapeText(blob->shape()),
                     " differ, expected equal ones");
  }
  const int64_t channels = reversed() ? geometry_.num_output : geometry_.channels;
  if (shape[geometry_.channel_axis] != channels) {
    throw FieldError("bottom", "has ", shape[geometry_.channel_axis], " channels, expected ",
                     channels);
  }
  return reversed() ? geometry_.BottomShape(shape) : geometry_.TopShape(shape);
}

}  // namespace millrace::inline nn
