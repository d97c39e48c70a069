#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

#include "base/error.h"
#include "proto/upgrade.h"

namespace millrace::inline proto {
namespace {

using caffe::LayerParameter;
using caffe::V1LayerParameter;
using google::protobuf::FieldDescriptor;

caffe::ParamSpec* SpecOf(LayerParameter* layer, int i) {
  while (layer->param_size() <= i) layer->add_param();
  return layer->mutable_param(i);
}

// V1 has a list per property of the parameters, each possibly shorter than the number of
// parameters.
void UpgradeParamSpecs(const V1LayerParameter& from, LayerParameter* to) {
  for (int i = 0; i < from.param_size(); ++i) SpecOf(to, i)->set_name(from.param(i));
  for (int i = 0; i < from.blob_share_mode_size(); ++i) {
    const bool permissive = from.blob_share_mode(i) == V1LayerParameter::PERMISSIVE;
    SpecOf(to, i)->set_share_mode(permissive ? caffe::ParamSpec::PERMISSIVE
                                             : caffe::ParamSpec::STRICT);
  }
  for (int i = 0; i < from.blobs_lr_size(); ++i) SpecOf(to, i)->set_lr_mult(from.blobs_lr(i));
  for (int i = 0; i < from.weight_decay_size(); ++i) {
    SpecOf(to, i)->set_decay_mult(from.weight_decay(i));
  }
}

// The messages of the layer types have the same names and types in both formats.
void CopyTypeParams(const V1LayerParameter& from, LayerParameter* to) {
  std::vector<const FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!field->name().ends_with("_param")) continue;
    const FieldDescriptor* today = LayerParameter::descriptor()->FindFieldByName(field->name());
    to->GetReflection()->MutableMessage(to, today)->CopyFrom(
        from.GetReflection()->GetMessage(from, field));
  }
}

template <typename DataParameter>
bool HasTransformation(const DataParameter& data) {
  return data.has_scale() || data.has_mean_file() || data.has_crop_size() || data.has_mirror();
}

template <typename DataParameter>
void MoveTransformation(DataParameter* data, caffe::TransformationParameter* transform) {
  if (data->has_scale()) transform->set_scale(data->scale());
  if (data->has_mean_file()) transform->set_mean_file(data->mean_file());
  if (data->has_crop_size()) transform->set_crop_size(data->crop_size());
  if (data->has_mirror()) transform->set_mirror(data->mirror());
  data->clear_scale();
  data->clear_mean_file();
  data->clear_crop_size();
  data->clear_mirror();
}

}  // namespace

const char* TypeNameOf(V1LayerParameter::LayerType type) {
  switch (type) {
    case V1LayerParameter::NONE:
      return "";
    case V1LayerParameter::ACCURACY:
      return "Accuracy";
    case V1LayerParameter::BNLL:
      return "BNLL";
    case V1LayerParameter::CONCAT:
      return "Concat";
    case V1LayerParameter::CONVOLUTION:
      return "Convolution";
    case V1LayerParameter::DATA:
      return "Data";
    case V1LayerParameter::DROPOUT:
      return "Dropout";
    case V1LayerParameter::EUCLIDEAN_LOSS:
      return "EuclideanLoss";
    case V1LayerParameter::FLATTEN:
      return "Flatten";
    case V1LayerParameter::HDF5_DATA:
      return "HDF5Data";
    case V1LayerParameter::HDF5_OUTPUT:
      return "HDF5Output";
    case V1LayerParameter::IM2COL:
      return "Im2col";
    case V1LayerParameter::IMAGE_DATA:
      return "ImageData";
    case V1LayerParameter::INFOGAIN_LOSS:
      return "InfogainLoss";
    case V1LayerParameter::INNER_PRODUCT:
      return "InnerProduct";
    case V1LayerParameter::LRN:
      return "LRN";
    case V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS:
      return "MultinomialLogisticLoss";
    case V1LayerParameter::POOLING:
      return "Pooling";
    case V1LayerParameter::RELU:
      return "ReLU";
    case V1LayerParameter::SIGMOID:
      return "Sigmoid";
    case V1LayerParameter::SOFTMAX:
      return "Softmax";
    case V1LayerParameter::SOFTMAX_LOSS:
      return "SoftmaxWithLoss";
    case V1LayerParameter::SPLIT:
      return "Split";
    case V1LayerParameter::TANH:
      return "TanH";
    case V1LayerParameter::WINDOW_DATA:
      return "WindowData";
    case V1LayerParameter::ELTWISE:
      return "Eltwise";
    case V1LayerParameter::POWER:
      return "Power";
    case V1LayerParameter::SIGMOID_CROSS_ENTROPY_LOSS:
      return "SigmoidCrossEntropyLoss";
    case V1LayerParameter::HINGE_LOSS:
      return "HingeLoss";
    case V1LayerParameter::MEMORY_DATA:
      return "MemoryData";
    case V1LayerParameter::ARGMAX:
      return "ArgMax";
    case V1LayerParameter::THRESHOLD:
      return "Threshold";
    case V1LayerParameter::DUMMY_DATA:
      return "DummyData";
    case V1LayerParameter::SLICE:
      return "Slice";
    case V1LayerParameter::MVN:
      return "MVN";
    case V1LayerParameter::ABSVAL:
      return "AbsVal";
    case V1LayerParameter::SILENCE:
      return "Silence";
    case V1LayerParameter::CONTRASTIVE_LOSS:
      return "ContrastiveLoss";
    case V1LayerParameter::EXP:
      return "Exp";
    case V1LayerParameter::DECONVOLUTION:
      return "Deconvolution";
    case V1LayerParameter::CROP:
      return "Crop";
  }
  return "";  // the parser of a closed enumeration admits no other number
}

bool HasTransformationFields(const V1LayerParameter& layer) {
  switch (layer.type()) {
    case V1LayerParameter::DATA:
      return HasTransformation(layer.data_param());
    case V1LayerParameter::IMAGE_DATA:
      return HasTransformation(layer.image_data_param());
    case V1LayerParameter::WINDOW_DATA:
      return HasTransformation(layer.window_data_param());
    default:
      return false;
  }
}

void MoveTransformationFields(V1LayerParameter* layer) {
  if (!HasTransformationFields(*layer)) return;
  caffe::TransformationParameter* transform = layer->mutable_transform_param();
  switch (layer->type()) {
    case V1LayerParameter::DATA:
      return MoveTransformation(layer->mutable_data_param(), transform);
    case V1LayerParameter::IMAGE_DATA:
      return MoveTransformation(layer->mutable_image_data_param(), transform);
    default:
      return MoveTransformation(layer->mutable_window_data_param(), transform);
  }
}

LayerParameter UpgradeV1Layer(V1LayerParameter* layer) {
  if (layer->has_layer()) throw Error("layer '", layer->name(), "': is in format V0, expected V1");
  LayerParameter today;
  if (layer->has_name()) today.set_name(layer->name());
  if (layer->has_type()) today.set_type(TypeNameOf(layer->type()));
  today.mutable_bottom()->Swap(layer->mutable_bottom());
  today.mutable_top()->Swap(layer->mutable_top());
  today.mutable_include()->Swap(layer->mutable_include());
  today.mutable_exclude()->Swap(layer->mutable_exclude());
  today.mutable_blobs()->Swap(layer->mutable_blobs());
  today.mutable_loss_weight()->Swap(layer->mutable_loss_weight());
  UpgradeParamSpecs(*layer, &today);
  CopyTypeParams(*layer, &today);
  return today;
}

}  // namespace millrace::inline proto
