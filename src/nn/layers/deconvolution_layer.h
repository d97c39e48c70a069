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
#ifndef MILLRACE_NN_LAYERS_DECONVOLUTION_LAYER_H_
#define MILLRACE_NN_LAYERS_DECONVOLUTION_LAYER_H_

#include "nn/layers/convolution_layer.h"

namespace millrace::inline nn {

class DeconvolutionLayer : public ConvolutionLayer {
 public:
  using ConvolutionLayer::ConvolutionLayer;

 protected:
  bool reversed() const override { return true; }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_DECONVOLUTION_LAYER_H_
