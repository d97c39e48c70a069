#include "nn/layers/convolution_layer.h"

#include <limits>

#include "nn/filler.h"

namespace millrace {
namespace {

// A spatial setting is given as a repeated field (one value for both axes, or one per axis) or as a
// pair of _h and _w fields.
void ReadPair(const std::string& name, const google::protobuf::RepeatedField<uint32_t>& both,
              bool has_h, uint32_t h, bool has_w, uint32_t w, int64_t fallback, int64_t least,
              int64_t out[2]) {
  const std::string field = "convolution_param." + name;
  if (has_h || has_w) {
    if (!both.empty()) {
      throw FieldError(field, "give ", name, " or its _h and _w forms, not both");
    }
    out[0] = has_h ? h : fallback;
    out[1] = has_w ? w : fallback;
  } else if (both.size() > 2) {
    throw FieldError(field, both.size(), " values given, expected one or two (height, width)");
  } else {
    out[0] = both.empty() ? fallback : both.Get(0);
    out[1] = both.empty() ? fallback : both.Get(both.size() - 1);
  }
  for (int axis : {0, 1}) {
    if (out[axis] < least || out[axis] > std::numeric_limits<int32_t>::max()) {
      throw FieldError(field, out[axis], " given, expected at least ", least);
    }
  }
}

}  // namespace

Arity ConvolutionLayer::arity() const {
  const int most = std::numeric_limits<int>::max();
  return {1, most, 1, most};
}

ConvolutionGeometry ConvolutionLayer::ReadGeometry(const Blob& bottom) const {
  const caffe::ConvolutionParameter& param = param_.convolution_param();
  if (bottom.num_axes() != 4) {
    throw FieldError("bottom", "convolution needs 4 axes (N, C, H, W), '", param_.bottom(0),
                     "' has shape ", ShapeText(bottom.shape()));
  }
  if (bottom.CanonicalAxis(param.axis(), "convolution_param.axis") != 1) {
    throw FieldError("convolution_param.axis", param.axis(), " given, only 1 is supported");
  }
  ConvolutionGeometry g;
  g.channels = bottom.dim(1);
  g.num_output = param.num_output();
  g.group = param.group();
  g.bias = param.bias_term();
  if (g.num_output < 1) {
    throw FieldError("convolution_param.num_output", g.num_output, " given, expected at least 1");
  }
  if (param.kernel_size_size() == 0 && !(param.has_kernel_h() && param.has_kernel_w())) {
    throw FieldError("convolution_param", "kernel_size (or kernel_h and kernel_w) is missing");
  }
  ReadPair("kernel_size", param.kernel_size(), param.has_kernel_h(), param.kernel_h(),
           param.has_kernel_w(), param.kernel_w(), 0, 1, g.kernel);
  ReadPair("stride", param.stride(), param.has_stride_h(), param.stride_h(), param.has_stride_w(),
           param.stride_w(), 1, 1, g.stride);
  ReadPair("pad", param.pad(), param.has_pad_h(), param.pad_h(), param.has_pad_w(), param.pad_w(),
           0, 0, g.pad);
  ReadPair("dilation", param.dilation(), false, 0, false, 0, 1, 1, g.dilation);
  if (g.group < 1 || g.channels % g.group != 0 || g.num_output % g.group != 0) {
    throw FieldError("convolution_param.group", g.group, " given, but it must divide the ",
                     g.channels, " input channels and the ", g.num_output, " outputs");
  }
  return g;
}

void ConvolutionLayer::SetUp(const Blobs& bottom, const Blobs& top) {
  const caffe::ConvolutionParameter& param = param_.convolution_param();
  if (bottom.size() != top.size()) {
    throw FieldError("top", top.size(), " given, expected ", bottom.size(), ", one per bottom");
  }
  const ConvolutionGeometry& g = geometry_ = ReadGeometry(*bottom[0]);
  const Shape weights = {g.num_output, g.channels / g.group, g.kernel[0], g.kernel[1]};
  CheckFiller(param.weight_filler(), weights, "convolution_param.weight_filler");
  AddParam(weights, param.weight_filler());
  if (!g.bias) return;
  CheckFiller(param.bias_filler(), {g.num_output}, "convolution_param.bias_filler");
  AddParam({g.num_output}, param.bias_filler());
}

Shape ConvolutionGeometry::TopShape(const Shape& bottom) const {
  Shape top = {bottom[0], num_output, 0, 0};
  for (int axis : {0, 1}) {
    const int64_t room = bottom[2 + axis] + 2 * pad[axis] - Extent(axis);
    if (room < 0) {
      throw FieldError("convolution_param", "a kernel of extent ", Extent(axis),
                       " does not fit into the bottom of shape ", ShapeText(bottom));
    }
    top[2 + axis] = room / stride[axis] + 1;
  }
  return top;
}

Shape ConvolutionGeometry::GroupedWeightShape() const {
  Shape shape = {num_output / group, channels / group, kernel[0], kernel[1]};
  if (group > 1) shape.insert(shape.begin(), group);
  return shape;
}

}  // namespace millrace
