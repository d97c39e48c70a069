#include "model/onnx/layer_export.h"

#include "nn/plain_values.h"

namespace millrace::inline model::onnx_export {

std::string LayerExport::Op(const std::string& op, const Names& inputs,
                            const Attributes& attributes) {
  return Ops(op, inputs, 1, attributes)[0];
}

Names LayerExport::Ops(const std::string& op, const Names& inputs, int outputs,
                       const Attributes& attributes) {
  Names names;
  const std::string name = graph_.NewName(StrCat(layer_.name(), "/", op));
  for (int i = 0; i < outputs; ++i) names.push_back(graph_.NewName(name + "_value"));
  return graph_.Add(op, name, inputs, names, attributes);
}

void LayerExport::Finish(const std::string& value, int top) {
  if (graph_.Rename(first_, value, outputs_[top])) return;
  // A bottom, or a constant.
  graph_.Add("Identity", graph_.NewName(layer_.name() + "/Identity"), {value}, {outputs_[top]});
}

void LayerExport::FinishConstant(int i) {
  graph_.AddFloats(outputs_[0], param_shape(i), WeightValues(i));
}

std::string LayerExport::Floats(const Shape& shape, const std::vector<float>& values) {
  const std::string name = graph_.NewName(layer_.name() + "/constant");
  graph_.AddFloats(name, shape, values);
  return name;
}

std::string LayerExport::Ints(const std::vector<int64_t>& values) {
  const std::string name = graph_.NewName(layer_.name() + "/constant");
  graph_.AddInts(name, values);
  return name;
}

std::string LayerExport::Weights(int i, const Shape& shape) {
  std::string& name = constants_[{layer_.params()[i].blob->data(), ShapeText(shape)}];
  if (name.empty()) {
    name = graph_.NewName(StrCat(layer_.name(), "/blob_", i));
    graph_.AddFloats(name, shape, WeightValues(i));
  }
  return name;
}

std::vector<float> LayerExport::WeightValues(int i) const {
  return PlainData(*layer_.params()[i].blob);
}

std::string LayerExport::Reshaped(const std::string& value, const Shape& from, const Shape& to) {
  if (from == to) return value;
  // 0 stands for the size of the same axis before.
  Shape wanted = to;
  if (!from.empty() && !to.empty() && from[0] == to[0]) wanted[0] = 0;
  return Op("Reshape", {value, Ints(wanted)});
}

std::string LayerExport::Padded(const std::string& planes, int64_t rows, int64_t columns) {
  return Op("Pad", {planes, Ints({0, 0, rows, columns, 0, 0, rows, columns})});
}

std::string LayerExport::Part(const std::string& value, const std::vector<int64_t>& begin,
                              const std::vector<int64_t>& end, const std::vector<int64_t>& axes) {
  return Op("Slice", {value, Ints(begin), Ints(end), Ints(axes)});
}

std::string LayerExport::Linear(const std::string& value, float factor, float shift) {
  std::string result = value;
  if (factor != 1) result = Op("Mul", {result, Scalar(factor)});
  if (shift != 0) result = Op("Add", {result, Scalar(shift)});
  return result;
}

}  // namespace millrace::inline model::onnx_export
