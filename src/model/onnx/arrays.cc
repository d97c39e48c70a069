// The weights in ONNX models: the initializers of the graph, by name.
#include <onnx/onnx_pb.h>

#include <cstring>
#include <map>

#include "base/error.h"
#include "model/arrays/array_file.h"

namespace millrace::inline model::onnx_export {
namespace {

ElementType TypeOf(const onnx::TensorProto& tensor, const std::string& where) {
  using Proto = onnx::TensorProto;
  static const std::map<int, ElementType> types = {
      {Proto::BOOL, ElementType::kBool},         {Proto::UINT8, ElementType::kUint8},
      {Proto::INT8, ElementType::kInt8},         {Proto::UINT16, ElementType::kUint16},
      {Proto::INT16, ElementType::kInt16},       {Proto::UINT32, ElementType::kUint32},
      {Proto::INT32, ElementType::kInt32},       {Proto::UINT64, ElementType::kUint64},
      {Proto::INT64, ElementType::kInt64},       {Proto::FLOAT16, ElementType::kFloat16},
      {Proto::BFLOAT16, ElementType::kBfloat16}, {Proto::FLOAT, ElementType::kFloat32},
      {Proto::DOUBLE, ElementType::kFloat64}};
  const auto found = types.find(tensor.data_type());
  if (found == types.end()) {
    throw Error(where, ": data_type ", tensor.data_type(), " is not a type of numbers");
  }
  return found->second;
}

// Appends each value of a field as `T`.
template <typename T, typename Field>
void Append(const Field& field, std::string* bytes) {
  for (const auto value : field) {
    const T stored = static_cast<T>(value);
    bytes->append(reinterpret_cast<const char*>(&stored), sizeof(T));
  }
}

// Numbers are in raw_data, or in the field of their type.
std::string BytesIn(const onnx::TensorProto& tensor, ElementType type) {
  if (tensor.has_raw_data()) return tensor.raw_data();
  std::string bytes;
  switch (type) {
    case ElementType::kFloat32:
      Append<float>(tensor.float_data(), &bytes);
      break;
    case ElementType::kFloat64:
      Append<double>(tensor.double_data(), &bytes);
      break;
    case ElementType::kInt64:
      Append<int64_t>(tensor.int64_data(), &bytes);
      break;
    case ElementType::kUint32:
      Append<uint32_t>(tensor.uint64_data(), &bytes);
      break;
    case ElementType::kUint64:
      Append<uint64_t>(tensor.uint64_data(), &bytes);
      break;
    case ElementType::kInt32:
      Append<int32_t>(tensor.int32_data(), &bytes);
      break;
    case ElementType::kInt16:
    case ElementType::kUint16:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      Append<uint16_t>(tensor.int32_data(), &bytes);
      break;
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kBool:
      Append<uint8_t>(tensor.int32_data(), &bytes);
      break;
  }
  return bytes;
}

std::vector<NamedArray> ParseOnnx(const std::string& bytes, const std::string& path) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph()) {
    throw Error(path, ": expected an ONNX model");
  }
  std::vector<NamedArray> arrays;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    const std::string where = StrCat(path, ": initializer '", tensor.name(), "'");
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
      throw Error(where, ": its data are in another file, expected them in the model");
    }
    NamedArray& array = arrays.emplace_back();
    array.name = tensor.name();
    array.type = TypeOf(tensor, where);
    array.shape.assign(tensor.dims().begin(), tensor.dims().end());
    array.bytes = BytesIn(tensor, array.type);
    ExpectBytes(array.bytes.size(), array.shape, array.type, where);
  }
  return arrays;
}

const RegisterOnnxArrays arrays(ParseOnnx);

}  // namespace
}  // namespace millrace::inline model::onnx_export
