// Layers that multiply with learned matrices.
#include <cmath>

#include "model/onnx/layer_export.h"
#include "nn/layers/convolution/convolution_geometry.h"

namespace millrace::inline model::onnx_export {
namespace {

std::vector<int64_t> Twice(const Shape& pads) {
  std::vector<int64_t> both = pads;
  both.insert(both.end(), pads.begin(), pads.end());
  return both;
}

// Settings along the last `axes` of those along the axes of folded shapes.
Shape Last(const Shape& settings, size_t axes) {
  return {settings.end() - static_cast<int64_t>(axes), settings.end()};
}

// ONNX has the axes (N, C, spatial), and at least one spatial axis. Other blobs are folded.
void ExportWindows(LayerExport& layer, bool reversed) {
  for (int i = 0; i < layer.bottoms(); ++i) {
    const ConvolutionGeometry g =
        ReadConvolutionGeometry(layer.param(), Blob(layer.bottom(i)), reversed);
    if (!reversed && g.WindowExceeds(layer.bottom(i))) {
      throw FieldError("convolution_param",
                       "the kernel is larger than the bottom, which ONNX has nothing for");
    }
    const bool is_folded = g.channel_axis != 1 || g.spatial < 1;
    const size_t axes = is_folded ? g.axes() : g.spatial;
    const Shape from = is_folded ? g.Folded(layer.bottom(i)) : layer.bottom(i);
    const Shape to = is_folded ? g.Folded(layer.top(i)) : layer.top(i);
    // Shape of the described convolution; ONNX has this order for both operators.
    Shape weights = {g.num_output, g.channels / g.group};
    for (const int64_t size : Last(g.kernel, axes)) weights.push_back(size);
    Names inputs = {layer.Reshaped(layer.in(i), layer.bottom(i), from), layer.Weights(0, weights)};
    if (g.bias) inputs.push_back(layer.Weights(1));
    const std::string result = layer.Op(reversed ? "ConvTranspose" : "Conv", inputs,
                                        {{"kernel_shape", Last(g.kernel, axes)},
                                         {"strides", Last(g.stride, axes)},
                                         {"pads", Twice(Last(g.pad, axes))},
                                         {"dilations", Last(g.dilation, axes)},
                                         {"group", g.group}});
    layer.Finish(layer.Reshaped(result, to, layer.top(i)), i);
  }
}

void ExportConvolution(LayerExport& layer) { ExportWindows(layer, false); }
void ExportDeconvolution(LayerExport& layer) { ExportWindows(layer, true); }

// The weights {outputs, inputs} with rows of length 1. Rows of zeros remain.
std::string UnitWeights(LayerExport& layer) {
  const Shape& shape = layer.param_shape(0);
  std::vector<float> values = layer.WeightValues(0);
  for (int64_t begin = 0; begin < shape[0] * shape[1]; begin += shape[1]) {
    double squares = 0;
    for (int64_t i = begin; i < begin + shape[1]; ++i) squares += double{values[i]} * values[i];
    if (!(squares > 0)) continue;
    const auto inverse = static_cast<float>(1 / std::sqrt(squares));
    for (int64_t i = begin; i < begin + shape[1]; ++i) values[i] *= inverse;
  }
  return layer.Floats(shape, values);
}

void ExportInnerProduct(LayerExport& layer) {
  const caffe::InnerProductParameter& param = layer.param().inner_product_param();
  const int axis = layer.Axis(param.axis());
  const Shape& shape = layer.bottom();
  std::string rows = layer.in();
  if (shape.size() != 2 || axis != 1) {
    rows = layer.Op("Flatten", {rows}, {{"axis", int64_t{axis}}});
  }
  Names inputs = {rows, param.normalize() ? UnitWeights(layer) : layer.Weights(0)};
  if (param.bias_term()) inputs.push_back(layer.Weights(1));
  const std::string result =
      layer.Op("Gemm", inputs, {{"transB", int64_t{param.transpose() ? 0 : 1}}});
  const Shape flat = {ShapeCount(Shape(shape.begin(), shape.begin() + axis)), param.num_output()};
  layer.Finish(layer.Reshaped(result, flat, layer.top()));
}

void ExportEmbed(LayerExport& layer) {
  const std::string indices =
      layer.Op("Cast", {layer.in()}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  const std::string rows = layer.Op("Gather", {layer.Weights(0), indices});
  layer.Finish(layer.params() > 1 ? layer.Op("Add", {rows, layer.Weights(1)}) : rows);
}

}  // namespace

void AddConvolutions(ExportTable* table) {
  table->insert({{"Convolution", ExportConvolution},
                 {"ConvolutionDepthwise", ExportConvolution},
                 {"DepthwiseConvolution", ExportConvolution},
                 {"Deconvolution", ExportDeconvolution},
                 {"Embed", ExportEmbed},
                 {"InnerProduct", ExportInnerProduct}});
}

}  // namespace millrace::inline model::onnx_export
