#include "nn/onednn/convolution_ops.h"

#include <string>
#include <vector>

#include "nn/layout.h"

namespace millrace::inline nn::onednn {
namespace {

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
constexpr auto kReversed = dnnl::algorithm::deconvolution_direct;
constexpr auto kTraining = dnnl::prop_kind::forward_training;

// Works around a oneDNN bug (2.6 to at least 3.12). If channels are innermost and fewer than a
// vector's lanes, the kernels for strided 1x1 convolutions gather the bottom into scratch memory
// at intervals of whole vectors, but reserve memory for the channels alone. They write beyond it,
// and the gradient is wrong.
bool WritesBeyondScratch(const ConvolutionArrays& arrays) {
  constexpr int64_t kMaxLanes = 16;
  const Shape weights = DimsOf(arrays.weights);
  const auto axes = static_cast<int64_t>(arrays.strides.size());
  return DimsOf(arrays.bottom)[1] < kMaxLanes &&
         ShapeCount(Shape(weights.end() - axes, weights.end())) == 1 &&
         ShapeCount(arrays.strides) > 1;
}

template <typename PrimitiveDesc>
bool IsOneByOneKernel(const PrimitiveDesc& pd) {
  return std::string(pd.impl_info_str()).find("1x1") != std::string::npos;
}

// The number of the three passes that oneDNN computes with its reference code.
int ReferencePasses(const ConvolutionArrays& arrays, bool reversed) {
  const auto reference = [](const auto& pd) {
    return static_cast<int>(std::string(pd.impl_info_str()).rfind("ref", 0) == 0);
  };
  if (reversed) {
    const auto forward = DeconvolutionForwardOf(arrays);
    return reference(forward) + reference(DeconvolutionBackwardDataOf(arrays, forward)) +
           reference(DeconvolutionBackwardWeightsOf(arrays, forward));
  }
  const auto forward = ForwardOf(arrays);
  return reference(forward) + reference(BackwardDataOf(arrays, forward)) +
         reference(BackwardWeightsOf(arrays, forward));
}

// The weights of a deconvolution: oneDNN numbers its outputs, the channels of the convolution,
// first. In memory they are behind the inputs.
Desc ReversedWeights(const Shape& grouped, int group) {
  Shape dims = grouped;
  const int first = group > 1 ? 1 : 0;
  std::swap(dims[first], dims[first + 1]);
  Shape strides(dims.size(), 1);
  for (size_t axis = dims.size() - 1; axis-- > 0;)
    strides[axis] = strides[axis + 1] * dims[axis + 1];
  const int64_t inner = strides[first + 1];
  strides[first] = inner;
  strides[first + 1] = inner * dims[first];
  return Desc(dims, dnnl::memory::data_type::f32, strides);
}

}  // namespace

ConvolutionArrays::ConvolutionArrays(const ConvolutionGeometry& g, const Desc& bottom,
                                     const Desc& top, bool reversed)
    : bottom(bottom),
      top(top),
      bias(g.bias ? DescOf({reversed ? g.channels : g.num_output}) : Desc()),
      plain_weights(reversed ? ReversedWeights(g.GroupedWeightShape(), static_cast<int>(g.group))
                             : DescOf(g.GroupedWeightShape())),
      strides(g.stride),
      padding(g.pad) {
  weights = AnyDesc(DimsOf(plain_weights));
  const Shape bottom_dims = DimsOf(bottom), top_dims = DimsOf(top);
  for (int axis = 0; axis < g.axes(); ++axis) {
    dilates.push_back(g.dilation[axis] - 1);
    padding_end.push_back((top_dims[2 + axis] - 1) * g.stride[axis] + g.Extent(axis) -
                          bottom_dims[2 + axis] - g.pad[axis]);
  }
}

dnnl::convolution_forward::primitive_desc ForwardOf(const ConvolutionArrays& a) {
  return Descs().Forward<dnnl::convolution_forward>(kTraining, kAlgorithm, a.bottom, a.weights,
                                                    a.bias, a.top, a.strides, a.dilates, a.padding,
                                                    a.padding_end);
}

dnnl::convolution_backward_data::primitive_desc BackwardDataOf(
    const ConvolutionArrays& a, const dnnl::convolution_forward::primitive_desc& forward) {
  return Descs().Backward<dnnl::convolution_backward_data>(forward, kAlgorithm, a.bottom, a.weights,
                                                           a.top, a.strides, a.dilates, a.padding,
                                                           a.padding_end);
}

dnnl::convolution_backward_weights::primitive_desc BackwardWeightsOf(
    const ConvolutionArrays& a, const dnnl::convolution_forward::primitive_desc& forward) {
  const auto is_right = [&](const auto& pd) {
    return !WritesBeyondScratch(a) || !IsOneByOneKernel(pd);
  };
  const auto pd = Descs().BackwardThat<dnnl::convolution_backward_weights>(
      is_right, forward, kAlgorithm, a.bottom, a.weights, a.bias, a.top, a.strides, a.dilates,
      a.padding, a.padding_end);
  if (!is_right(pd)) throw Error("convolution: this geometry cannot be computed");
  return pd;
}

dnnl::deconvolution_forward::primitive_desc DeconvolutionForwardOf(const ConvolutionArrays& a) {
  return Descs().Forward<dnnl::deconvolution_forward>(kTraining, kReversed, a.top, a.weights,
                                                      a.bias, a.bottom, a.strides, a.dilates,
                                                      a.padding, a.padding_end);
}

dnnl::deconvolution_backward_data::primitive_desc DeconvolutionBackwardDataOf(
    const ConvolutionArrays& a, const dnnl::deconvolution_forward::primitive_desc& forward) {
  return Descs().Backward<dnnl::deconvolution_backward_data>(forward, kReversed, a.top, a.weights,
                                                             a.bottom, a.strides, a.dilates,
                                                             a.padding, a.padding_end);
}

dnnl::deconvolution_backward_weights::primitive_desc DeconvolutionBackwardWeightsOf(
    const ConvolutionArrays& a, const dnnl::deconvolution_forward::primitive_desc& forward) {
  return Descs().Backward<dnnl::deconvolution_backward_weights>(
      forward, kReversed, a.top, a.weights, a.bias, a.bottom, a.strides, a.dilates, a.padding,
      a.padding_end);
}

Layout BestConvolutionLayout(const ConvolutionGeometry& g, const Shape& bottom, const Shape& top,
                             bool reversed, Layout preferred) {
  const bool simple = !reversed && g.group == 1 && g.dilation[0] == 1 && g.dilation[1] == 1;
  if (simple || preferred == Layout::kPlain) return preferred;
  // Where groups do not fill blocks, oneDNN often has a kernel for channels innermost. In plain
  // order it uses matrix products.
  if (reversed && WritesBeyondScratch({g, DescOf(bottom), DescOf(top), true})) {
    return Layout::kPlain;
  }
  std::vector<Layout> others;
  if (g.group > 1 || reversed) others.push_back(Layout::kNhwc);
  others.push_back(Layout::kPlain);
  const auto reference_passes = [&](Layout layout) {
    return Describe("convolution", [&] {
      return ReferencePasses({g, DescOf(bottom, FittingLayout(layout, bottom)),
                              DescOf(top, FittingLayout(layout, top)), reversed},
                             reversed);
    });
  };
  Layout best = preferred;
  int fewest = reference_passes(preferred);
  for (const Layout layout : others) {
    if (fewest == 0) break;
    const int passes = reference_passes(layout);
    if (passes < fewest) best = layout, fewest = passes;
  }
  return best;
}

}  // namespace millrace::inline nn::onednn
