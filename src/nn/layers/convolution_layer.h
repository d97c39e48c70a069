// Convolution over the last two axes of a 4-axis blob.
//
//   top[n, o, y, x] = bias[o] + sum over c, i, j of
//       weight[o, c, i, j] * bottom[n, C_g*g + c, y*stride_h - pad_h + i*dilation_h,
//                                                 x*stride_w - pad_w + j*dilation_w]
//
// with zeros outside the bottom. Output channel o belongs to group g = o / (num_output/group),
// which reads C_g = channels/group input channels. Output size per axis, rounded down:
//   (in + 2 pad - (dilation (kernel - 1) + 1)) / stride + 1
//
// The parameters are weight {num_output, channels/group, kernel_h, kernel_w} and, unless bias_term
// is false, bias {num_output}.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_LAYER_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_LAYER_H_

#include "millrace/layer.h"

namespace millrace {

struct ConvolutionGeometry {
  int64_t channels, num_output, group;
  int64_t kernel[2], stride[2], pad[2], dilation[2];  // height, width
  bool bias;

  // Number of rows (axis 0) or columns (axis 1) of the bottom that a window spans.
  int64_t Extent(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  // Throws FieldError if the kernel does not fit into the padded bottom.
  Shape TopShape(const Shape& bottom) const;
  // {group, num_output/group, channels/group, kh, kw}; without the group axis if there is one
  // group.
  Shape GroupedWeightShape() const;
};

class ConvolutionLayer : public Layer {
 public:
  using Layer::Layer;

  // One top per bottom. All bottoms have the same shape and share the weights.
  Arity arity() const override;
  std::set<std::string> fields() const override { return {"convolution_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;

 protected:
  // The geometry that the layer's fields give for a bottom of this shape. May be called before
  // SetUp. Throws FieldError.
  ConvolutionGeometry ReadGeometry(const Blob& bottom) const;

  ConvolutionGeometry geometry_;
};

}  // namespace millrace

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_LAYER_H_
