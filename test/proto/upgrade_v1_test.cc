// Nets of the time before August 2014.
#include "proto/upgrade.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>

#include "test/proto/upgrade_support.h"

namespace millrace::test {
namespace {

TEST(UpgradeV1, LeNetBecomesTodaysLeNet) {
  ExpectUpgrade(R"(
name: "LeNet"
force_backward: true
layers { name: "mnist" type: DATA top: "data" top: "label" include: { phase: TRAIN }
         data_param { source: "mnist_train_lmdb" backend: LMDB batch_size: 64 scale: 0.00390625 } }
layers { name: "conv1" type: CONVOLUTION blobs_lr: 1 blobs_lr: 2 bottom: "data" top: "conv1"
         convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
         pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layers { name: "ip1" type: INNER_PRODUCT weight_decay: 1 weight_decay: 0 bottom: "pool1" top: "ip1"
         inner_product_param { num_output: 500 } }
layers { name: "relu1" type: RELU bottom: "ip1" top: "ip1" }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip1" bottom: "label" top: "loss" loss_weight: 0.5
         loss_param { ignore_label: 3 } exclude: { stage: "deploy" } }
)",
                R"(
name: "LeNet"
force_backward: true
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { scale: 0.00390625 }
        data_param { source: "mnist_train_lmdb" backend: LMDB batch_size: 64 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 }
        param { lr_mult: 2 }
        convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { decay_mult: 1 }
        param { decay_mult: 0 } inner_product_param { num_output: 500 } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss"
        loss_weight: 0.5 loss_param { ignore_label: 3 } exclude { stage: "deploy" } }
)");
}

TEST(UpgradeV1, ListsOfParameterPropertiesBecomeOneEntryPerParameter) {
  ExpectUpgrade(
      "layers { name: 'x' type: INNER_PRODUCT param: 'w' param: '' blob_share_mode: STRICT "
      "blob_share_mode: PERMISSIVE blobs_lr: 3 weight_decay: 4 weight_decay: 5 weight_decay: 6 }",
      "layer { name: 'x' type: 'InnerProduct' "
      "param { name: 'w' share_mode: STRICT lr_mult: 3 decay_mult: 4 } "
      "param { name: '' share_mode: PERMISSIVE decay_mult: 5 } param { decay_mult: 6 } }");
}

TEST(UpgradeV1, EachTypeHasItsNameOfToday) {
  const std::map<std::string, std::string> names = {
      {"NONE", ""},
      {"ABSVAL", "AbsVal"},
      {"ACCURACY", "Accuracy"},
      {"ARGMAX", "ArgMax"},
      {"BNLL", "BNLL"},
      {"CONCAT", "Concat"},
      {"CONTRASTIVE_LOSS", "ContrastiveLoss"},
      {"CONVOLUTION", "Convolution"},
      {"DATA", "Data"},
      {"DECONVOLUTION", "Deconvolution"},
      {"DROPOUT", "Dropout"},
      {"DUMMY_DATA", "DummyData"},
      {"ELTWISE", "Eltwise"},
      {"EUCLIDEAN_LOSS", "EuclideanLoss"},
      {"EXP", "Exp"},
      {"FLATTEN", "Flatten"},
      {"HDF5_DATA", "HDF5Data"},
      {"HDF5_OUTPUT", "HDF5Output"},
      {"HINGE_LOSS", "HingeLoss"},
      {"IM2COL", "Im2col"},
      {"IMAGE_DATA", "ImageData"},
      {"INFOGAIN_LOSS", "InfogainLoss"},
      {"INNER_PRODUCT", "InnerProduct"},
      {"LRN", "LRN"},
      {"MEMORY_DATA", "MemoryData"},
      {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
      {"MVN", "MVN"},
      {"POOLING", "Pooling"},
      {"POWER", "Power"},
      {"RELU", "ReLU"},
      {"SIGMOID", "Sigmoid"},
      {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
      {"SILENCE", "Silence"},
      {"SLICE", "Slice"},
      {"SOFTMAX", "Softmax"},
      {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
      {"SPLIT", "Split"},
      {"TANH", "TanH"},
      {"THRESHOLD", "Threshold"},
      {"WINDOW_DATA", "WindowData"},
  };
  EXPECT_EQ(caffe::V1LayerParameter::LayerType_descriptor()->value_count(),
            static_cast<int>(names.size()) + 1);  // and CROP, see upgrade_net_test.cc
  for (const auto& [number, name] : names) {
    ExpectUpgrade(StrCat("layers { name: 'x' type: ", number, " }"),
                  StrCat("layer { name: 'x' type: '", name, "' }"));
  }
  ExpectUpgrade("layers { name: 'x' }", "layer { name: 'x' }");
}

TEST(UpgradeV1, TheMessageOfEachTypeIsCarried) {
  int messages = 0;
  const auto* v1 = caffe::V1LayerParameter::descriptor();
  for (int i = 0; i < v1->field_count(); ++i) {
    const auto* field = v1->field(i);
    if (!field->name().ends_with("_param")) continue;
    ++messages;
    caffe::V1LayerParameter old;
    google::protobuf::Message* message = old.GetReflection()->MutableMessage(&old, field);
    // A value in any field shows that the content is there.
    const auto* inner = message->GetDescriptor()->field(0);
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(1000 + inner->number(), 7);
    const std::string content = message->SerializeAsString();
    ASSERT_FALSE(content.empty());
    const caffe::LayerParameter today = UpgradeV1Layer(&old);
    const auto* same = today.GetDescriptor()->FindFieldByName(field->name());
    ASSERT_NE(same, nullptr) << field->name();
    ASSERT_TRUE(today.GetReflection()->HasField(today, same)) << field->name();
    EXPECT_EQ(today.GetReflection()->GetMessage(today, same).SerializeAsString(), content);
  }
  EXPECT_EQ(messages, 30);
}

TEST(UpgradeV1, TransformationsOfDataLayersMoveToTransformParam) {
  const std::pair<std::string, std::string> layers[] = {
      {"DATA", "Data"}, {"IMAGE_DATA", "ImageData"}, {"WINDOW_DATA", "WindowData"}};
  const std::string fields[] = {"data_param", "image_data_param", "window_data_param"};
  for (int i = 0; i < 3; ++i) {
    const auto& [number, name] = layers[i];
    ExpectUpgrade(StrCat("layers { name: 'x' type: ", number, " ", fields[i],
                         " { source: 's' scale: 2 mean_file: 'm' crop_size: 3 mirror: true } }"),
                  StrCat("layer { name: 'x' type: '", name, "' ", fields[i],
                         " { source: 's' } transform_param { scale: 2 mean_file: 'm' crop_size: 3 "
                         "mirror: true } }"));
  }
  ExpectUpgrade(
      "layers { type: DATA data_param { crop_size: 3 } transform_param { mirror: true crop_size: 4 "
      "} }",
      "layer { type: 'Data' data_param { } transform_param { mirror: true crop_size: 3 } }");
  // Only a layer that reads the message had these fields.
  ExpectUpgrade("layers { type: RELU data_param { scale: 2 } }",
                "layer { type: 'ReLU' data_param { scale: 2 } }");
}

TEST(UpgradeV1, BlobsOfABinaryModelAreCarried) {
  ExpectUpgrade("layers { name: 'x' type: RELU blobs { num: 1 data: 2 } blobs { data: 3 } }",
                "layer { name: 'x' type: 'ReLU' blobs { num: 1 data: 2 } blobs { data: 3 } }");
}

}  // namespace
}  // namespace millrace::test
