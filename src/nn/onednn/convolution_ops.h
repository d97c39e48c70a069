// The three passes of a convolution as oneDNN primitives, and those of a deconvolution.
#ifndef MILLRACE_NN_ONEDNN_CONVOLUTION_OPS_H_
#define MILLRACE_NN_ONEDNN_CONVOLUTION_OPS_H_

#include "nn/layers/convolution/convolution_geometry.h"
#include "nn/onednn/onednn.h"

namespace millrace::inline nn::onednn {

// oneDNN has convolutions of folded shapes (convolution_geometry.h) with up to this number of
// spatial axes.
inline constexpr int kMaxConvolutionAxes = 3;

// A convolution, or the deconvolution that is its backward pass. `bottom` and `top` are of the
// convolution and have folded shapes: a deconvolution reads `top` and writes `bottom`.
struct ConvolutionArrays {
  // `bias` becomes that of the pass that the layer runs forward, empty if there is none.
  ConvolutionArrays(const ConvolutionGeometry& geometry, const Desc& bottom, const Desc& top,
                    bool reversed);
  ConvolutionArrays() = default;

  Desc bottom, top, bias;
  Desc weights;        // in the order that the primitive prefers
  Desc plain_weights;  // as they lie in the flat array
  Shape strides, dilates, padding, padding_end;
};

// Descriptors of the passes; `forward` is of the same arrays. Throw dnnl::error if there is no
// implementation.
dnnl::convolution_forward::primitive_desc ForwardOf(const ConvolutionArrays& arrays);
dnnl::convolution_backward_data::primitive_desc BackwardDataOf(
    const ConvolutionArrays& arrays, const dnnl::convolution_forward::primitive_desc& forward);
dnnl::convolution_backward_weights::primitive_desc BackwardWeightsOf(
    const ConvolutionArrays& arrays, const dnnl::convolution_forward::primitive_desc& forward);

// The same for arrays that were made as `reversed`.
dnnl::deconvolution_forward::primitive_desc DeconvolutionForwardOf(const ConvolutionArrays& arrays);
dnnl::deconvolution_backward_data::primitive_desc DeconvolutionBackwardDataOf(
    const ConvolutionArrays& arrays, const dnnl::deconvolution_forward::primitive_desc& forward);
dnnl::deconvolution_backward_weights::primitive_desc DeconvolutionBackwardWeightsOf(
    const ConvolutionArrays& arrays, const dnnl::deconvolution_forward::primitive_desc& forward);

// The memory order for the bottom and top of a convolution or deconvolution with 4-axis blobs of
// these shapes, where their channels allow it: `preferred`, unless oneDNN has only reference code
// for a pass in that order, which takes hundreds of times as long.
Layout BestConvolutionLayout(const ConvolutionGeometry& geometry, const Shape& bottom,
                             const Shape& top, bool reversed, Layout preferred);

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_CONVOLUTION_OPS_H_
