#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <string_view>
#include <utility>

#include "base/text/format.h"
#include "proto/upgrade.h"

namespace millrace::inline proto {
namespace {

using caffe::V0LayerParameter;
using caffe::V1LayerParameter;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const std::map<std::string_view, V1LayerParameter::LayerType>& Types() {
  static const std::map<std::string_view, V1LayerParameter::LayerType> types = {
      {"accuracy", V1LayerParameter::ACCURACY},
      {"bnll", V1LayerParameter::BNLL},
      {"concat", V1LayerParameter::CONCAT},
      {"conv", V1LayerParameter::CONVOLUTION},
      {"data", V1LayerParameter::DATA},
      {"dropout", V1LayerParameter::DROPOUT},
      {"euclidean_loss", V1LayerParameter::EUCLIDEAN_LOSS},
      {"flatten", V1LayerParameter::FLATTEN},
      {"hdf5_data", V1LayerParameter::HDF5_DATA},
      {"hdf5_output", V1LayerParameter::HDF5_OUTPUT},
      {"im2col", V1LayerParameter::IM2COL},
      {"images", V1LayerParameter::IMAGE_DATA},
      {"infogain_loss", V1LayerParameter::INFOGAIN_LOSS},
      {"innerproduct", V1LayerParameter::INNER_PRODUCT},
      {"lrn", V1LayerParameter::LRN},
      {"multinomial_logistic_loss", V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS},
      {"pool", V1LayerParameter::POOLING},
      {"relu", V1LayerParameter::RELU},
      {"sigmoid", V1LayerParameter::SIGMOID},
      {"softmax", V1LayerParameter::SOFTMAX},
      {"softmax_loss", V1LayerParameter::SOFTMAX_LOSS},
      {"split", V1LayerParameter::SPLIT},
      {"tanh", V1LayerParameter::TANH},
      {"window_data", V1LayerParameter::WINDOW_DATA},
  };
  return types;
}

// Where V1 has a field of V0: "<message>.<field>" of V1LayerParameter, by the layer's V0 type. The
// type "" stands for all.
using Places = std::map<std::string_view, std::string_view>;

const std::map<std::string_view, Places>& Fields() {
  static const std::map<std::string_view, Places> fields = {
      {"num_output",
       {{"conv", "convolution_param.num_output"},
        {"innerproduct", "inner_product_param.num_output"}}},
      {"biasterm",
       {{"conv", "convolution_param.bias_term"},
        {"innerproduct", "inner_product_param.bias_term"}}},
      {"weight_filler",
       {{"conv", "convolution_param.weight_filler"},
        {"innerproduct", "inner_product_param.weight_filler"}}},
      {"bias_filler",
       {{"conv", "convolution_param.bias_filler"},
        {"innerproduct", "inner_product_param.bias_filler"}}},
      {"pad", {{"conv", "convolution_param.pad"}, {"pool", "pooling_param.pad"}}},
      {"kernelsize",
       {{"conv", "convolution_param.kernel_size"}, {"pool", "pooling_param.kernel_size"}}},
      {"group", {{"conv", "convolution_param.group"}}},
      {"stride", {{"conv", "convolution_param.stride"}, {"pool", "pooling_param.stride"}}},
      {"pool", {{"pool", "pooling_param.pool"}}},
      {"dropout_ratio", {{"dropout", "dropout_param.dropout_ratio"}}},
      {"local_size", {{"lrn", "lrn_param.local_size"}}},
      {"alpha", {{"lrn", "lrn_param.alpha"}}},
      {"beta", {{"lrn", "lrn_param.beta"}}},
      {"k", {{"lrn", "lrn_param.k"}}},
      {"source",
       {{"data", "data_param.source"},
        {"hdf5_data", "hdf5_data_param.source"},
        {"images", "image_data_param.source"},
        {"window_data", "window_data_param.source"},
        {"infogain_loss", "infogain_loss_param.source"}}},
      {"batchsize",
       {{"data", "data_param.batch_size"},
        {"hdf5_data", "hdf5_data_param.batch_size"},
        {"images", "image_data_param.batch_size"},
        {"window_data", "window_data_param.batch_size"}}},
      {"scale", {{"", "transform_param.scale"}}},
      {"meanfile", {{"", "transform_param.mean_file"}}},
      {"cropsize", {{"", "transform_param.crop_size"}}},
      {"mirror", {{"", "transform_param.mirror"}}},
      {"rand_skip", {{"data", "data_param.rand_skip"}, {"images", "image_data_param.rand_skip"}}},
      {"shuffle_images", {{"images", "image_data_param.shuffle"}}},
      {"new_height", {{"images", "image_data_param.new_height"}}},
      {"new_width", {{"images", "image_data_param.new_width"}}},
      {"concat_dim", {{"concat", "concat_param.concat_dim"}}},
      {"det_fg_threshold", {{"window_data", "window_data_param.fg_threshold"}}},
      {"det_bg_threshold", {{"window_data", "window_data_param.bg_threshold"}}},
      {"det_fg_fraction", {{"window_data", "window_data_param.fg_fraction"}}},
      {"det_context_pad", {{"window_data", "window_data_param.context_pad"}}},
      {"det_crop_mode", {{"window_data", "window_data_param.crop_mode"}}},
      {"hdf5_output_param", {{"hdf5_output", "hdf5_output_param."}}},
  };
  return fields;
}

// "file:line: layer 'name': field: "
std::string Place(const SourceMap& source, int index, const V1LayerParameter& layer,
                  const std::string& field) {
  const std::string where = source.Where(StrCat("layers[", index, "].", field));
  return StrCat(where, where.empty() ? "" : ": ", "layer ", Quoted(layer.layer().name()), ": ",
                field.substr(field.rfind('.') + 1), ": ");
}

// Sets `to` of `message`, or appends to it, the value that `from` has in `source`. Their types are
// alike but for the sign of integers.
void CopyValue(const Message& source, const FieldDescriptor* from, Message* message,
               const FieldDescriptor* to) {
  const Reflection& read = *source.GetReflection();
  const Reflection& write = *message->GetReflection();
  const auto set = [&](auto setter, auto adder, auto value) {
    to->is_repeated() ? (write.*adder)(message, to, value) : (write.*setter)(message, to, value);
  };
  switch (from->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set(&Reflection::SetUInt32, &Reflection::AddUInt32,
                 static_cast<uint32_t>(read.GetInt32(source, from)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(&Reflection::SetUInt32, &Reflection::AddUInt32, read.GetUInt32(source, from));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set(&Reflection::SetFloat, &Reflection::AddFloat, read.GetFloat(source, from));
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(&Reflection::SetBool, &Reflection::AddBool, read.GetBool(source, from));
    case FieldDescriptor::CPPTYPE_STRING:
      return set(&Reflection::SetString, &Reflection::AddString, read.GetString(source, from));
    case FieldDescriptor::CPPTYPE_ENUM:
      return write.SetEnumValue(message, to, read.GetEnumValue(source, from));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return write.MutableMessage(message, to)->CopyFrom(read.GetMessage(source, from));
    default:
      throw Error(from->full_name(), ": has a type that no field of this format has");
  }
}

// Copies the field `from` of `source` to `path` in `layer`. A path without a field is a message.
void CopyTo(std::string_view path, const Message& source, const FieldDescriptor* from,
            V1LayerParameter* layer) {
  const size_t dot = path.find('.');
  const FieldDescriptor* outer =
      V1LayerParameter::descriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  if (dot + 1 == path.size()) return CopyValue(source, from, layer, outer);
  Message* inner = layer->GetReflection()->MutableMessage(layer, outer);
  CopyValue(source, from, inner,
            inner->GetDescriptor()->FindFieldByName(std::string(path.substr(dot + 1))));
}

std::vector<const FieldDescriptor*> SetFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

V1LayerParameter Upgraded(const SourceMap& source, int index, V1LayerParameter* old,
                          std::vector<std::string>* problems) {
  const auto drop = [&](const std::string& field, const std::string& reason) {
    problems->push_back(StrCat(Place(source, index, *old, field), reason, "; dropped"));
  };
  for (const FieldDescriptor* field : SetFields(*old)) {
    const std::string& name = field->name();
    if (name == "layer" || name == "bottom" || name == "top") continue;
    drop(name, "a layer of format V0 has this field inside of `layer` only, if at all");
  }
  V0LayerParameter& v0 = *old->mutable_layer();
  V1LayerParameter layer;
  layer.mutable_bottom()->Swap(old->mutable_bottom());
  layer.mutable_top()->Swap(old->mutable_top());
  if (v0.has_name()) layer.set_name(v0.name());
  if (v0.has_type()) {
    const auto type = Types().find(v0.type());
    if (type == Types().end()) {
      throw Error(Place(source, index, *old, "layer.type"), "format V0 had no layer type ",
                  Quoted(v0.type()));
    }
    layer.set_type(type->second);
  }
  layer.mutable_blobs()->Swap(v0.mutable_blobs());
  layer.mutable_blobs_lr()->Swap(v0.mutable_blobs_lr());
  layer.mutable_weight_decay()->Swap(v0.mutable_weight_decay());
  for (const FieldDescriptor* field : SetFields(v0)) {
    if (field->name() == "name" || field->name() == "type") continue;
    std::string_view place;
    if (const auto found = Fields().find(field->name()); found != Fields().end()) {
      auto by_type = found->second.find(v0.type());
      if (by_type == found->second.end()) by_type = found->second.find("");
      if (by_type != found->second.end()) place = by_type->second;
    }
    if (place.empty()) {
      drop("layer." + field->name(),
           StrCat("a layer of type ", Quoted(v0.type()), " has no such parameter"));
    } else {
      CopyTo(place, v0, field, &layer);
    }
  }
  return layer;
}

// Gives the pad of the "padding" layer `padding`, whose top bottom `j` of `consumer` is, to the
// consumer, and connects that to the padding layer's bottom.
void FoldPadding(const SourceMap& source, int index, const V1LayerParameter& padding, int j,
                 V1LayerParameter* consumer) {
  const std::string bottom = Place(source, index, *consumer, StrCat("bottom[", j, "]"));
  const std::string& type = consumer->layer().type();
  if (type != "conv" && type != "pool") {
    throw Error(bottom, Quoted(consumer->bottom(j)), " is the top of a padding layer: expected a ",
                "layer of type conv or pool, not ", Quoted(type));
  }
  if (consumer->bottom_size() != 1) {
    throw Error(bottom, consumer->bottom_size(),
                " bottoms given behind a padding layer, expected 1");
  }
  if (padding.bottom_size() != 1 || padding.top_size() != 1) {
    throw Error(bottom, "the padding layer ", Quoted(padding.layer().name()), " before it has ",
                padding.bottom_size(), " bottoms and ", padding.top_size(),
                " tops, expected 1 of each");
  }
  consumer->mutable_layer()->set_pad(padding.layer().pad());
  consumer->set_bottom(j, padding.bottom(0));
}

void FoldPaddingLayers(const SourceMap& source, caffe::NetParameter* net) {
  constexpr int kInput = -1;
  std::map<std::string, int> producers;
  for (const std::string& input : net->input()) producers[input] = kInput;
  for (int i = 0; i < net->layers_size(); ++i) {
    V1LayerParameter& layer = *net->mutable_layers(i);
    if (!layer.has_layer()) {
      throw Error(source.Where(StrCat("layers[", i, "]")), ": layers: entry ", i,
                  " has no `layer`, ", "others have: formats V0 and V1 are mixed");
    }
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto producer = producers.find(layer.bottom(j));
      if (producer == producers.end()) {
        throw Error(Place(source, i, layer, StrCat("bottom[", j, "]")), "there is no blob ",
                    Quoted(layer.bottom(j)), " at this point of the net");
      }
      if (producer->second == kInput) continue;
      const V1LayerParameter& before = net->layers(producer->second);
      if (before.layer().type() == "padding") FoldPadding(source, i, before, j, &layer);
    }
    for (const std::string& top : layer.top()) producers[top] = i;
  }
}

}  // namespace

bool HasV0Layers(const caffe::NetParameter& net) {
  for (const V1LayerParameter& layer : net.layers()) {
    if (layer.has_layer()) return true;
  }
  return false;
}

void UpgradeV0Layers(const SourceMap& source, caffe::NetParameter* net, std::vector<int>* indices,
                     std::vector<std::string>* problems) {
  FoldPaddingLayers(source, net);
  caffe::NetParameter old;
  old.mutable_layers()->Swap(net->mutable_layers());
  indices->clear();
  for (int i = 0; i < old.layers_size(); ++i) {
    if (old.layers(i).layer().type() == "padding") continue;
    *net->add_layers() = Upgraded(source, i, old.mutable_layers(i), problems);
    indices->push_back(i);
  }
}

}  // namespace millrace::inline proto
