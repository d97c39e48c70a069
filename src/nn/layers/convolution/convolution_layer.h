// Bases of Convolution and Deconvolution.
#ifndef MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_LAYER_H_
#define MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_LAYER_H_

#include "millrace/layer.h"
#include "nn/layers/convolution/convolution_geometry.h"
#include "nn/layers/layer_interfaces.h"

namespace millrace::inline nn {

// Convolution over the spatial axes, those behind the channel axis (`axis`, 1 by default). The axes
// before it count images. With two spatial axes,
//
//   top[n, o, y, x] = bias[o] + sum over c, i, j of
//       weight[o, c, i, j] * bottom[n, C_g*g + c, y*stride_h - pad_h + i*dilation_h,
//                                                 x*stride_w - pad_w + j*dilation_w]
//
// with zeros outside the bottom, and so on for other numbers of spatial axes. Output channel o
// belongs to group g = o / (num_output/group), which reads C_g = channels/group input channels.
// Output size per axis, rounded down:
//   (in + 2 pad - (dilation (kernel - 1) + 1)) / stride + 1
//
// The parameters are weight {num_output, channels/group, kernel sizes} and, unless bias_term is
// false, bias {num_output}.
//
// The types DepthwiseConvolution and ConvolutionDepthwise of forks of Caffe are convolutions with
// one group per input channel. force_nd_im2col chooses among Caffe's implementations and has no
// effect here.

// Also the base of Deconvolution.
class ConvolutionLayer : public Layer, public BackwardReads {
 public:
  using Layer::Layer;

  // One top per bottom. All bottoms have the same shape and share the weights.
  Arity arity() const override;
  std::set<std::string> fields() const override { return {"convolution_param"}; }
  void SetUp(const Blobs& bottom, const Blobs& top) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override {
    return ValuesRead::kBottoms;
  }

 protected:
  // Whether the layer computes the backward pass of the convolution that geometry_ describes.
  virtual bool reversed() const { return false; }
  // The geometry that the layer's fields give for a bottom of this shape. May be called before
  // SetUp. Throws FieldError.
  ConvolutionGeometry ReadGeometry(const Blob& bottom) const {
    return ReadConvolutionGeometry(param_, bottom, reversed());
  }
  // The shape of the tops. Throws FieldError if the bottoms differ, or do not fit geometry_.
  Shape CheckedTopShape(const Blobs& bottom) const;
  int64_t top_channels() const { return reversed() ? geometry_.channels : geometry_.num_output; }

  ConvolutionGeometry geometry_;
};

// The transposed convolution: its forward pass is the backward pass of a Convolution with the same
// convolution_param from top to bottom, and the other way round. With two spatial axes,
//
//   top[n, o, y, x] = bias[o] + sum over c, i, j, v, u of weight[c, o_g, i, j] * bottom[n, c, v, u]
//       where y = v*stride_h - pad_h + i*dilation_h  and  x = u*stride_w - pad_w + j*dilation_w
//
// Output channel o is number o_g of its group, which reads the bottom channels of the same group.
// Output size per axis:
//   stride (in - 1) + dilation (kernel - 1) + 1 - 2 pad
//
// The parameters are weight {channels of the bottom, num_output/group, kernel sizes} and, unless
// bias_term is false, bias {num_output}.
class DeconvolutionLayer : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

 protected:
  bool reversed() const override { return true; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CONVOLUTION_CONVOLUTION_LAYER_H_
