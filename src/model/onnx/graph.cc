#include "model/onnx/graph.h"

#include "base/error.h"

namespace millrace::inline model::onnx_export {
namespace {

void SetValue(const Attribute& from, onnx::AttributeProto* to) {
  to->set_name(from.name);
  if (const auto* number = std::get_if<int64_t>(&from.value)) {
    to->set_type(onnx::AttributeProto::INT);
    to->set_i(*number);
  } else if (const auto* real = std::get_if<float>(&from.value)) {
    to->set_type(onnx::AttributeProto::FLOAT);
    to->set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    to->set_type(onnx::AttributeProto::STRING);
    to->set_s(*text);
  } else {
    to->set_type(onnx::AttributeProto::INTS);
    for (const int64_t each : std::get<std::vector<int64_t>>(from.value)) to->add_ints(each);
  }
}

void SetType(const std::string& name, const Shape& shape, onnx::ValueInfoProto* info) {
  info->set_name(name);
  onnx::TypeProto::Tensor* const tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx::TensorProto::FLOAT);
  tensor->mutable_shape();  // of a scalar, without axes
  for (const int64_t dim : shape) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

std::string Graph::NewName(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !names_.insert(name).second; ++i) name = StrCat(wanted, "_", i);
  return name;
}

Names Graph::Add(const std::string& op, const std::string& name, const Names& inputs,
                 const Names& outputs, const Attributes& attributes) {
  onnx::NodeProto* const node = proto_.add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const std::string& each : inputs) node->add_input(each);
  for (const std::string& each : outputs) node->add_output(each);
  for (const Attribute& each : attributes) SetValue(each, node->add_attribute());
  return outputs;
}

bool Graph::Rename(int first, const std::string& from, const std::string& to) {
  bool is_written = false;
  for (int i = first; i < proto_.node_size(); ++i) {
    onnx::NodeProto& node = *proto_.mutable_node(i);
    for (std::string& each : *node.mutable_output()) {
      if (each != from) continue;
      each = to;
      is_written = true;
    }
    for (std::string& each : *node.mutable_input()) {
      if (each == from && is_written) each = to;
    }
  }
  return is_written;
}

void Graph::AddFloats(const std::string& name, const Shape& shape,
                      const std::vector<float>& values) {
  onnx::TensorProto* const tensor = proto_.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : shape) tensor->add_dims(dim);
  tensor->set_raw_data(values.data(), values.size() * sizeof(float));
}

void Graph::AddInts(const std::string& name, const std::vector<int64_t>& values) {
  onnx::TensorProto* const tensor = proto_.add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  tensor->set_raw_data(values.data(), values.size() * sizeof(int64_t));
}

void Graph::AddInput(const std::string& name, const Shape& shape) {
  SetType(name, shape, proto_.add_input());
}

void Graph::AddOutput(const std::string& name, const Shape& shape) {
  SetType(name, shape, proto_.add_output());
}

}  // namespace millrace::inline model::onnx_export
