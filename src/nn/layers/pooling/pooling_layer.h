// Max, average and stochastic pooling over the last two axes of a 4-axis blob.
//
// Output size per axis, as in Caffe: (in + 2 pad - kernel) / stride + 1, rounded up (or down with
// round_mode: FLOOR or ceil_mode: false). Rounded up, a window may be larger than the padded
// bottom. A last window that would begin beyond the bottom and its leading padding is dropped if
// there is padding along any axis. Without, as in Caffe, it is kept, although it contains no value:
// it occurs with a stride above the kernel size. Its top is -FLT_MAX (MAX, position -1) or 0 (AVE,
// STOCHASTIC; Caffe divides 0 by 0 there), and no gradient flows from it.
//
//   MAX: top = the largest bottom value in the window; its gradient goes to that value.
//        A second top receives the position of that value, as a float: row * width + column.
//   AVE: top = the sum of the window over the bottom, divided by the size of the
//        window clipped to the padded bottom, [-pad, in + pad).
//   STOCHASTIC: stochastic_pooling_layer.h
//
// With global_pooling the whole bottom is one window.
#ifndef MILLRACE_NN_LAYERS_POOLING_POOLING_LAYER_H_
#define MILLRACE_NN_LAYERS_POOLING_POOLING_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/pooling/pooling_shape.h"

namespace millrace::inline nn {

struct PoolingGeometry {
  int64_t kernel[2], stride[2], pad[2];  // height, width
  int64_t overhang[2];         // extent of the last window beyond the bottom; may be negative
  bool empty_windows = false;  // the last windows along an axis contain no value of the bottom
};

class PoolingLayer : public Layer {
 public:
  using Layer::Layer;

  Arity arity() const override { return {1, 1, 1, is_max() ? 2 : 1}; }
  std::set<std::string> fields() const override { return {"pooling_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;

 protected:
  // Also sets the fields of geometry_ that depend on the bottom.
  Shape TopShape(const Shape& bottom);
  // For kernels. Throws FieldError if planes are too large for 32-bit indices.
  PoolingShape ShapeForKernels(const Shape& bottom, const Shape& top) const;
  bool is_max() const { return param_.pooling_param().pool() == caffe::PoolingParameter::MAX; }

  PoolingGeometry geometry_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_POOLING_POOLING_LAYER_H_
