#include "model/layer_text.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/error.h"

namespace millrace::inline model {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kTimes[] = "\u00d7";

// "3×3" for one value, which stands for both axes, and for two.
std::string SizesText(const std::vector<uint32_t>& sizes) {
  std::string text;
  const size_t count = std::max<size_t>(sizes.size(), sizes.size() == 1 ? 2 : 0);
  for (size_t i = 0; i < count; ++i) {
    text += StrCat(text.empty() ? "" : kTimes, sizes[std::min(i, sizes.size() - 1)]);
  }
  return text;
}

// ", stride 2": of sizes that differ from `usual`; one number where all are equal.
std::string StepText(const char* what, const std::vector<uint32_t>& sizes, uint32_t usual) {
  if (std::all_of(sizes.begin(), sizes.end(), [&](uint32_t s) { return s == usual; })) return "";
  const bool equal =
      std::all_of(sizes.begin(), sizes.end(), [&](uint32_t s) { return s == sizes[0]; });
  return StrCat(", ", what, " ", equal ? StrCat(sizes[0]) : SizesText(sizes));
}

template <typename Values>
std::vector<uint32_t> Sizes(const Values& values, bool has_pair, uint32_t h, uint32_t w) {
  if (has_pair) return {h, w};
  return {values.begin(), values.end()};
}

std::string ConvolutionText(const caffe::ConvolutionParameter& p) {
  std::string text = StrCat(
      p.num_output(), " ", kTimes, " ",
      SizesText(Sizes(p.kernel_size(), p.has_kernel_h(), p.kernel_h(), p.kernel_w())),
      StepText("stride", Sizes(p.stride(), p.has_stride_h(), p.stride_h(), p.stride_w()), 1),
      StepText("pad", Sizes(p.pad(), p.has_pad_h() || p.has_pad_w(), p.pad_h(), p.pad_w()), 0),
      StepText("dilation", Sizes(p.dilation(), false, 0, 0), 1));
  if (p.group() != 1) text += StrCat(", ", p.group(), " groups");
  return text;
}

std::string PoolingText(const caffe::PoolingParameter& p) {
  const std::string method = caffe::PoolingParameter::PoolMethod_Name(p.pool());
  if (p.global_pooling()) return method + ", global";
  const std::array size = {p.kernel_size()}, stride = {p.stride()}, pad = {p.pad()};
  return StrCat(
      method, " ", SizesText(Sizes(size, p.has_kernel_h(), p.kernel_h(), p.kernel_w())),
      StepText("stride", Sizes(stride, p.has_stride_h(), p.stride_h(), p.stride_w()), 1),
      StepText("pad", Sizes(pad, p.has_pad_h() || p.has_pad_w(), p.pad_h(), p.pad_w()), 0));
}

std::string Basename(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string ScalarText(const Message& message, const FieldDescriptor* field, int index) {
  const auto& reflection = *message.GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return StrCat(repeated ? reflection.GetRepeatedInt32(message, field, index)
                             : reflection.GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return StrCat(repeated ? reflection.GetRepeatedUInt32(message, field, index)
                             : reflection.GetUInt32(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StrCat(repeated ? reflection.GetRepeatedFloat(message, field, index)
                             : reflection.GetFloat(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(message, field)->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return Basename(repeated ? reflection.GetRepeatedString(message, field, index)
                               : reflection.GetString(message, field));
    default:
      return "";
  }
}

std::string FieldText(const Message& message, const FieldDescriptor* field) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (field->message_type() != caffe::BlobShape::descriptor() || field->is_repeated()) return "";
    const auto& shape =
        static_cast<const caffe::BlobShape&>(message.GetReflection()->GetMessage(message, field));
    return StrCat(field->name(), " ", DimsText(Shape(shape.dim().begin(), shape.dim().end())));
  }
  std::string values;
  const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
  for (int i = 0; i < count; ++i) {
    values += (values.empty() ? " " : ", ") + ScalarText(message, field, i);
  }
  return field->name() + values;
}

// The fields that are set in the layer's own messages ("..._param").
std::string OtherText(const caffe::LayerParameter& layer) {
  static const std::set<std::string> kSilent = {"engine", "stable_prod_grad", "prefetch"};
  std::vector<const FieldDescriptor*> messages, fields;
  layer.GetReflection()->ListFields(layer, &messages);
  std::string text;
  for (const FieldDescriptor* message : messages) {
    if (message->is_repeated() || !message->name().ends_with("_param") ||
        message->name() == "transform_param") {
      continue;
    }
    const Message& param = layer.GetReflection()->GetMessage(layer, message);
    param.GetReflection()->ListFields(param, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string part = kSilent.count(field->name()) ? "" : FieldText(param, field);
      if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
    }
  }
  return text;
}

}  // namespace

std::string LayerDetails(const caffe::LayerParameter& layer) {
  if (layer.type() == "Convolution" || layer.type() == "Deconvolution") {
    return ConvolutionText(layer.convolution_param());
  }
  if (layer.type() == "Pooling") return PoolingText(layer.pooling_param());
  if (layer.type() == "InnerProduct") {
    return StrCat(layer.inner_product_param().num_output(), " outputs");
  }
  if (layer.type() == "Eltwise") {
    std::string text = caffe::EltwiseParameter::EltwiseOp_Name(layer.eltwise_param().operation());
    for (const float coeff : layer.eltwise_param().coeff()) text += StrCat(", ", coeff);
    return text;
  }
  return OtherText(layer);
}

std::string DimsText(const Shape& shape) {
  if (shape.empty()) return "1 number";
  std::string text;
  for (const int64_t dim : shape) text += StrCat(text.empty() ? "" : " \u00d7 ", dim);
  return text;
}

std::string GroupedDigits(int64_t number) {
  const std::string digits = StrCat(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace millrace::inline model
