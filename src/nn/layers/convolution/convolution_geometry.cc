#include "nn/layers/convolution/convolution_geometry.h"

#include <limits>

#include "base/error.h"
#include "nn/layers/fields.h"

namespace millrace::inline nn {
namespace {

using Values = google::protobuf::RepeatedField<uint32_t>;

// Reads a setting that is given once for all spatial axes, once per axis, or, with two spatial
// axes, as a pair of _h and _w fields.
class SpatialField {
 public:
  SpatialField(const std::string& name, const Values& values, int64_t default_value, int64_t least)
      : name_(name), values_(values), default_value_(default_value), least_(least) {}
  void SetPair(bool has_h, uint32_t h, bool has_w, uint32_t w) {
    has_pair_ = has_h || has_w;
    pair_[0] = has_h ? h : default_value_;
    pair_[1] = has_w ? w : default_value_;
  }

  Shape Read(int spatial) const {
    const std::string field = "convolution_param." + name_;
    Shape result(spatial, default_value_);
    if (has_pair_) {
      if (spatial != 2) {
        throw FieldError(field + "_h", "given, but the bottom has ", spatial,
                         " spatial axes, expected 2");
      }
      if (!values_.empty()) {
        throw FieldError(field, "give ", name_, " or its _h and _w forms, not both");
      }
      result = {pair_[0], pair_[1]};
    } else if (values_.size() > 1 && values_.size() != spatial) {
      throw FieldError(field, values_.size(), " values given, expected one, or ", spatial,
                       ", one per spatial axis");
    }
    for (int axis = 0; axis < spatial; ++axis) {
      if (!has_pair_ && !values_.empty()) result[axis] = values_.Get(values_.size() > 1 ? axis : 0);
      if (result[axis] < least_ || result[axis] > std::numeric_limits<int32_t>::max()) {
        throw FieldError(field, result[axis], " given, expected at least ", least_);
      }
    }
    return result;
  }

 private:
  const std::string name_;
  const Values& values_;
  const int64_t default_value_, least_;
  bool has_pair_ = false;
  int64_t pair_[2] = {};
};

// Puts axes of size `value` first until there are two.
void FillUp(Shape* shape, int64_t value) {
  while (shape->size() < 2) shape->insert(shape->begin(), value);
}

bool IsDepthwise(const std::string& type) {
  return type == "DepthwiseConvolution" || type == "ConvolutionDepthwise";
}

}  // namespace

ConvolutionGeometry ReadConvolutionWindows(const caffe::LayerParameter& layer, const Blob& bottom) {
  const caffe::ConvolutionParameter& param = layer.convolution_param();
  ConvolutionGeometry g;
  g.channel_axis = CheckedAxis(bottom, param.axis(), "convolution_param.axis");
  g.spatial = bottom.num_axes() - g.channel_axis - 1;
  g.channels = bottom.dim(g.channel_axis);
  const bool no_pair = !(param.has_kernel_h() && param.has_kernel_w());
  if (param.kernel_size_size() == 0 && no_pair && g.spatial > 0) {
    throw FieldError("convolution_param", "kernel_size (or kernel_h and kernel_w) is missing");
  }
  SpatialField kernel("kernel_size", param.kernel_size(), 0, 1);
  kernel.SetPair(param.has_kernel_h(), param.kernel_h(), param.has_kernel_w(), param.kernel_w());
  SpatialField stride("stride", param.stride(), 1, 1);
  stride.SetPair(param.has_stride_h(), param.stride_h(), param.has_stride_w(), param.stride_w());
  SpatialField pad("pad", param.pad(), 0, 0);
  pad.SetPair(param.has_pad_h(), param.pad_h(), param.has_pad_w(), param.pad_w());
  g.kernel = kernel.Read(g.spatial);
  g.stride = stride.Read(g.spatial);
  g.pad = pad.Read(g.spatial);
  g.dilation = SpatialField("dilation", param.dilation(), 1, 1).Read(g.spatial);
  for (Shape* shape : {&g.kernel, &g.stride, &g.dilation}) FillUp(shape, 1);
  FillUp(&g.pad, 0);
  return g;
}

ConvolutionGeometry ReadConvolutionGeometry(const caffe::LayerParameter& layer, const Blob& bottom,
                                            bool reversed) {
  const caffe::ConvolutionParameter& param = layer.convolution_param();
  ConvolutionGeometry g = ReadConvolutionWindows(layer, bottom);
  const int64_t in = g.channels, out = param.num_output();
  if (out < 1) throw FieldError("convolution_param.num_output", out, " given, expected at least 1");
  g.bias = param.bias_term();
  g.group = param.group();
  if (IsDepthwise(layer.type())) {
    if (param.has_group() && g.group != in) {
      throw FieldError("convolution_param.group", g.group, " given, expected the number of ",
                       "channels, ", in);
    }
    g.group = in;
  }
  if (g.group < 1 || in % g.group != 0 || out % g.group != 0) {
    throw FieldError("convolution_param.group", g.group, " given, but it must divide the ", in,
                     " input channels and the ", out, " outputs");
  }
  g.channels = reversed ? out : in;
  g.num_output = reversed ? in : out;
  return g;
}

Shape ConvolutionGeometry::Folded(const Shape& blob) const {
  Shape folded = {1, blob[channel_axis]};
  for (int axis = 0; axis < channel_axis; ++axis) folded[0] *= blob[axis];
  for (int axis = spatial; axis < 2; ++axis) folded.push_back(1);
  folded.insert(folded.end(), blob.begin() + channel_axis + 1, blob.end());
  return folded;
}

Shape ConvolutionGeometry::TopShape(const Shape& bottom) const {
  Shape top = bottom;
  top[channel_axis] = num_output;
  for (int i = 0; i < spatial; ++i) {
    const int axis = axes() - spatial + i, at = channel_axis + 1 + i;
    const int64_t room = bottom[at] + 2 * pad[axis] - Extent(axis);
    if (room <= -stride[axis]) {
      throw FieldError("convolution_param", "a kernel of extent ", Extent(axis),
                       " does not fit into the bottom of shape ", ShapeText(bottom));
    }
    top[at] = room / stride[axis] + 1;  // 1 if room is negative: the division rounds towards 0
  }
  return top;
}

bool ConvolutionGeometry::WindowExceeds(const Shape& bottom) const {
  for (int i = 0; i < spatial; ++i) {
    const int axis = axes() - spatial + i;
    if (bottom[channel_axis + 1 + i] + 2 * pad[axis] < Extent(axis)) return true;
  }
  return false;
}

Shape ConvolutionGeometry::BottomShape(const Shape& top) const {
  Shape bottom = top;
  bottom[channel_axis] = channels;
  for (int i = 0; i < spatial; ++i) {
    const int axis = axes() - spatial + i, at = channel_axis + 1 + i;
    bottom[at] = stride[axis] * (top[at] - 1) + Extent(axis) - 2 * pad[axis];
    if (bottom[at] < 1) {
      throw FieldError("convolution_param.pad", pad[axis],
                       " given, which leaves nothing of a top for a bottom of shape ",
                       ShapeText(top));
    }
  }
  return bottom;
}

Shape ConvolutionGeometry::WeightShape() const {
  Shape shape = {num_output, channels / group};
  shape.insert(shape.end(), kernel.end() - spatial, kernel.end());
  return shape;
}

Shape ConvolutionGeometry::GroupedWeightShape() const {
  Shape shape = {num_output / group, channels / group};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  if (group > 1) shape.insert(shape.begin(), group);
  return shape;
}

}  // namespace millrace::inline nn
