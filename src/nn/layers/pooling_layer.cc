#include "nn/layers/pooling_layer.h"

#include <limits>

namespace millrace::inline nn {

void PoolingLayer::SetUp(const Blobs& bottom, const Blobs&) {
  const caffe::PoolingParameter& param = param_.pooling_param();
  if (bottom[0]->num_axes() != 4) {
    throw FieldError("bottom", "pooling needs 4 axes (N, C, H, W), '", param_.bottom(0),
                     "' has shape ", ShapeText(bottom[0]->shape()));
  }
  const bool pair = param.has_kernel_h() || param.has_kernel_w();
  PoolingGeometry& g = geometry_;
  if (param.global_pooling()) {
    if (param.has_kernel_size() || pair) {
      throw FieldError("pooling_param.global_pooling", "the window is the bottom: give no kernel");
    }
  } else if (param.has_kernel_size() == pair ||
             (pair && !(param.has_kernel_h() && param.has_kernel_w()))) {
    throw FieldError("pooling_param", "give kernel_size, or both kernel_h and kernel_w");
  }
  const auto read = [](int64_t out[2], bool has_h, uint32_t h, bool has_w, uint32_t w,
                       uint32_t both) {
    out[0] = has_h ? h : both;
    out[1] = has_w ? w : both;
  };
  read(g.kernel, pair, param.kernel_h(), pair, param.kernel_w(), param.kernel_size());
  read(g.stride, param.has_stride_h(), param.stride_h(), param.has_stride_w(), param.stride_w(),
       param.stride());
  read(g.pad, param.has_pad_h(), param.pad_h(), param.has_pad_w(), param.pad_w(), param.pad());
  for (int axis : {0, 1}) {
    if (param.global_pooling() && (g.pad[axis] != 0 || g.stride[axis] != 1)) {
      throw FieldError("pooling_param.global_pooling", "expects pad 0 and stride 1");
    }
    if (!param.global_pooling() && g.kernel[axis] < 1) {
      throw FieldError("pooling_param.kernel_size", "0 given, expected at least 1");
    }
    if (g.stride[axis] < 1) {
      throw FieldError("pooling_param.stride", "0 given, expected at least 1");
    }
    if (!param.global_pooling() && g.pad[axis] >= g.kernel[axis]) {
      throw FieldError("pooling_param.pad", g.pad[axis], " given, expected less than the kernel, ",
                       g.kernel[axis]);
    }
  }
}

Shape PoolingLayer::TopShape(const Shape& bottom) {
  PoolingGeometry& g = geometry_;
  const caffe::PoolingParameter& param = param_.pooling_param();
  Shape top = {bottom[0], bottom[1], 0, 0};
  const bool padded = g.pad[0] > 0 || g.pad[1] > 0;
  g.empty_windows = false;
  for (int axis : {0, 1}) {
    const int64_t in = bottom[2 + axis];
    if (param.global_pooling()) g.kernel[axis] = in;
    const int64_t room = in + 2 * g.pad[axis] - g.kernel[axis];
    const bool up = param.round_mode() == caffe::PoolingParameter::CEIL && param.ceil_mode();
    // A division rounds towards zero.
    const int64_t add = up == (room > 0) ? g.stride[axis] - 1 : 0;
    int64_t out = (room + (room > 0 ? add : -add)) / g.stride[axis] + 1;
    if (out < 1) {
      throw FieldError("pooling_param.kernel_size", "a window of ", g.kernel[axis],
                       " does not fit into the bottom of shape ", ShapeText(bottom));
    }
    const bool beyond = (out - 1) * g.stride[axis] >= in + g.pad[axis];
    if (beyond && padded) --out;
    g.empty_windows |= beyond && !padded;
    g.overhang[axis] = (out - 1) * g.stride[axis] + g.kernel[axis] - in - g.pad[axis];
    top[2 + axis] = out;
  }
  return top;
}

PoolingShape PoolingLayer::ShapeForKernels(const Shape& bottom, const Shape& top) const {
  PoolingShape shape{};
  for (int axis : {0, 1}) {
    shape.in[axis] = bottom[2 + axis];
    shape.out[axis] = top[2 + axis];
    shape.kernel[axis] = geometry_.kernel[axis];
    shape.stride[axis] = geometry_.stride[axis];
    shape.pad[axis] = geometry_.pad[axis];
  }
  if (shape.in[0] * shape.in[1] > std::numeric_limits<int32_t>::max()) {
    throw FieldError("bottom", "has ", shape.in[0] * shape.in[1],
                     " values in a plane, expected at most ", std::numeric_limits<int32_t>::max());
  }
  return shape;
}

}  // namespace millrace::inline nn
