// Layers that combine arrays: value by value, or one behind the other.
#include "model/onnx/layer_export.h"
#include "nn/layers/fields.h"

namespace millrace::inline model::onnx_export {
namespace {

// An array whose first axis is axis `axis` of the bottom, with an axis of size 1 for each behind
// it.
Shape MatchedShape(const LayerExport& layer, const Shape& array, int axis) {
  Shape shape = array;
  shape.resize(layer.bottom().size() - (array.empty() ? 0 : axis), 1);
  return shape;
}

// Bottom 1 if there is one, or else learned array `index`.
std::string Matched(LayerExport& layer, int index, int axis) {
  if (layer.bottoms() > 1) {
    return layer.Reshaped(layer.in(1), layer.bottom(1), MatchedShape(layer, layer.bottom(1), axis));
  }
  return layer.Weights(index, MatchedShape(layer, layer.param_shape(index), axis));
}

void ExportScale(LayerExport& layer) {
  const caffe::ScaleParameter& param = layer.param().scale_param();
  const int axis = layer.Axis(param.axis());
  std::string result = layer.Op("Mul", {layer.in(), Matched(layer, 0, axis)});
  if (param.bias_term()) {
    const int bias = layer.params() - 1;
    const Shape shape = MatchedShape(layer, layer.param_shape(bias), axis);
    result = layer.Op("Add", {result, layer.Weights(bias, shape)});
  }
  layer.Finish(result);
}

void ExportBias(LayerExport& layer) {
  const int axis = layer.Axis(layer.param().bias_param().axis());
  layer.Finish(layer.Op("Add", {layer.in(), Matched(layer, 0, axis)}));
}

void ExportEltwise(LayerExport& layer) {
  const caffe::EltwiseParameter& param = layer.param().eltwise_param();
  const char* op = param.operation() == caffe::EltwiseParameter::PROD  ? "Mul"
                   : param.operation() == caffe::EltwiseParameter::SUM ? "Add"
                                                                       : "Max";
  std::string result;
  for (int i = 0; i < layer.bottoms(); ++i) {
    const bool sum = param.operation() == caffe::EltwiseParameter::SUM;
    const float coeff = sum && param.coeff_size() > 0 ? param.coeff(i) : 1;
    const std::string each = layer.Linear(layer.in(i), coeff, 0);
    result = i == 0 ? each : layer.Op(op, {result, each});
  }
  layer.Finish(result);
}

// a x + y, with a number of `a` per channel
void ExportAxpy(LayerExport& layer) {
  Shape shape = {layer.bottom(0)[0], layer.bottom(0)[1]};
  shape.resize(layer.bottom(1).size(), 1);
  const std::string scale = layer.Reshaped(layer.in(0), layer.bottom(0), shape);
  layer.Finish(layer.Op("Add", {layer.Op("Mul", {scale, layer.in(1)}), layer.in(2)}));
}

void ExportConcat(LayerExport& layer) {
  const caffe::ConcatParameter& param = layer.param().concat_param();
  const int64_t axis = param.has_concat_dim() ? param.concat_dim() : layer.Axis(param.axis());
  Names inputs;
  for (int i = 0; i < layer.bottoms(); ++i) inputs.push_back(layer.in(i));
  layer.Finish(layer.Op("Concat", inputs, {{"axis", axis}}));
}

void ExportSlice(LayerExport& layer) {
  const caffe::SliceParameter& param = layer.param().slice_param();
  const int64_t axis = param.has_slice_dim() ? param.slice_dim() : layer.Axis(param.axis());
  int64_t begin = 0;
  for (int i = 0; i < layer.tops(); ++i) {
    const int64_t end = begin + layer.top(i)[axis];
    layer.Finish(layer.Part(layer.in(), {begin}, {end}, {axis}), i);
    begin = end;
  }
}

void ExportBatchReindex(LayerExport& layer) {
  const std::string indices =
      layer.Op("Cast", {layer.in(1)}, {{"to", int64_t{onnx::TensorProto::INT64}}});
  layer.Finish(layer.Op("Gather", {layer.in(0), indices}));
}

void ExportParameter(LayerExport& layer) { layer.FinishConstant(0); }

}  // namespace

void AddCombinations(ExportTable* table) {
  table->insert({{"Axpy", ExportAxpy},
                 {"BatchReindex", ExportBatchReindex},
                 {"Bias", ExportBias},
                 {"Concat", ExportConcat},
                 {"Eltwise", ExportEltwise},
                 {"Parameter", ExportParameter},
                 {"Scale", ExportScale},
                 {"Slice", ExportSlice}});
}

}  // namespace millrace::inline model::onnx_export
