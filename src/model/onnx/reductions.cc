// Layers that reduce axes.
#include "model/onnx/layer_export.h"

namespace millrace::inline model::onnx_export {
namespace {

void ExportReduction(LayerExport& layer) {
  const caffe::ReductionParameter& param = layer.param().reduction_param();
  std::vector<int64_t> axes;
  for (int64_t axis = layer.Axis(param.axis()); axis < static_cast<int64_t>(layer.bottom().size());
       ++axis) {
    axes.push_back(axis);
  }
  const Attribute drop = {"keepdims", int64_t{0}};
  std::string result;
  if (param.operation() == caffe::ReductionParameter::SUM) {
    result = layer.Op("ReduceSum", {layer.in(), layer.Ints(axes)}, {drop});
  } else {
    const char* op = param.operation() == caffe::ReductionParameter::ASUM    ? "ReduceL1"
                     : param.operation() == caffe::ReductionParameter::SUMSQ ? "ReduceSumSquare"
                                                                             : "ReduceMean";
    result = layer.Op(op, {layer.in()}, {{"axes", axes}, drop});
  }
  layer.Finish(layer.Linear(result, param.coeff(), 0));
}

std::string AsFloats(LayerExport& layer, const std::string& indices) {
  return layer.Op("Cast", {indices}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
}

// The indices, or the values, of the top_k largest along `axis` of `rows`, whose size there is
// `length`. Of equal values Caffe has the one with the larger index first, ONNX that with the
// smaller one.
struct Largest {
  LayerExport& layer;
  const std::string rows;
  const int64_t axis, length;
  const int64_t top_k = layer.param().argmax_param().top_k();

  std::string Indices() const {
    if (top_k == 1) {
      return AsFloats(
          layer,
          layer.Op("ArgMax", {rows},
                   {{"axis", axis}, {"keepdims", int64_t{1}}, {"select_last_index", int64_t{1}}}));
    }
    return layer.Linear(AsFloats(layer, Reversed()[1]), -1, static_cast<float>(length - 1));
  }
  std::string Values() const {
    if (top_k > 1) return Reversed()[0];
    return layer.Op("ReduceMax", {rows},
                    {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
  }

 private:
  // Values and indices in the reversed rows.
  Names Reversed() const {
    const std::string reversed = layer.Op(
        "Slice",
        {rows, layer.Ints({-1}), layer.Ints({-length - 1}), layer.Ints({axis}), layer.Ints({-1})});
    return layer.Ops("TopK", {reversed, layer.Ints({top_k})}, 2, {{"axis", axis}});
  }
};

void ExportArgMax(LayerExport& layer) {
  const caffe::ArgMaxParameter& param = layer.param().argmax_param();
  const Shape& shape = layer.bottom();
  if (param.has_axis()) {
    const int axis = layer.Axis(param.axis());
    const Largest largest = {layer, layer.in(), axis, shape[axis]};
    return layer.Finish(param.out_max_val() ? largest.Values() : largest.Indices());
  }
  const int64_t length = ShapeCount(Shape(shape.begin() + 1, shape.end())), top_k = param.top_k();
  const Largest largest = {layer, layer.Reshaped(layer.in(), shape, {shape[0], length}), 1, length};
  const std::string indices = largest.Indices();
  if (!param.out_max_val()) {
    return layer.Finish(layer.Reshaped(indices, {shape[0], top_k}, layer.top()));
  }
  const std::string both = layer.Op("Concat", {indices, largest.Values()}, {{"axis", int64_t{1}}});
  layer.Finish(layer.Reshaped(both, {shape[0], 2 * top_k}, layer.top()));
}

}  // namespace

void AddReductions(ExportTable* table) {
  table->insert({{"ArgMax", ExportArgMax}, {"Reduction", ExportReduction}});
}

}  // namespace millrace::inline model::onnx_export
