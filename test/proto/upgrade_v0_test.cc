// Nets of 2013.
#include "proto/upgrade.h"

#include "test/proto/upgrade_support.h"

namespace millrace::test {
namespace {

TEST(UpgradeV0, LeNetBecomesTodaysLeNet) {
  ExpectUpgrade(R"(
name: "LeNet"
layers { layer { name: "mnist" type: "data" source: "mnist_train_leveldb" batchsize: 64 scale: 0.00390625 }
         top: "data" top: "label" }
layers { layer { name: "conv1" type: "conv" num_output: 20 kernelsize: 5 stride: 1
                 weight_filler { type: "xavier" } bias_filler { type: "constant" }
                 blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 }
         bottom: "data" top: "conv1" }
layers { layer { name: "pool1" type: "pool" kernelsize: 2 stride: 2 pool: MAX } bottom: "conv1" top: "pool1" }
layers { layer { name: "ip1" type: "innerproduct" num_output: 500 biasterm: false blobs_lr: 1. }
         bottom: "pool1" top: "ip1" }
layers { layer { name: "relu1" type: "relu" } bottom: "ip1" top: "ip1" }
layers { layer { name: "drop1" type: "dropout" dropout_ratio: 0.25 } bottom: "ip1" top: "ip1" }
layers { layer { name: "prob" type: "softmax_loss" } bottom: "ip1" bottom: "label" }
)",
                R"(
name: "LeNet"
layer { name: "mnist" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
        data_param { source: "mnist_train_leveldb" batch_size: 64 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
        convolution_param { num_output: 20 kernel_size: 5 stride: 1 weight_filler { type: "xavier" }
                            bias_filler { type: "constant" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
        pooling_param { kernel_size: 2 stride: 2 pool: MAX } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { lr_mult: 1 }
        inner_product_param { num_output: 500 bias_term: false } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.25 } }
layer { name: "prob" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" }
)");
}

TEST(UpgradeV0, EachTypeHasItsNameOfToday) {
  const std::pair<const char*, const char*> types[] = {
      {"accuracy", "Accuracy"},
      {"bnll", "BNLL"},
      {"concat", "Concat"},
      {"conv", "Convolution"},
      {"data", "Data"},
      {"dropout", "Dropout"},
      {"euclidean_loss", "EuclideanLoss"},
      {"flatten", "Flatten"},
      {"hdf5_data", "HDF5Data"},
      {"hdf5_output", "HDF5Output"},
      {"im2col", "Im2col"},
      {"images", "ImageData"},
      {"infogain_loss", "InfogainLoss"},
      {"innerproduct", "InnerProduct"},
      {"lrn", "LRN"},
      {"multinomial_logistic_loss", "MultinomialLogisticLoss"},
      {"pool", "Pooling"},
      {"relu", "ReLU"},
      {"sigmoid", "Sigmoid"},
      {"softmax", "Softmax"},
      {"softmax_loss", "SoftmaxWithLoss"},
      {"split", "Split"},
      {"tanh", "TanH"},
      {"window_data", "WindowData"},
  };
  for (const auto& [old, today] : types) {
    ExpectUpgrade(StrCat("layers { layer { name: 'x' type: '", old, "' } }"),
                  StrCat("layer { name: 'x' type: '", today, "' }"));
  }
}

// A layer of V0 with these fields, and of today.
void ExpectLayer(const std::string& type, const std::string& fields, const std::string& today) {
  ExpectUpgrade(StrCat("layers { layer { name: 'x' type: '", type, "' ", fields, " } }"),
                StrCat("layer { name: 'x' ", today, " }"));
}

TEST(UpgradeV0, EachFieldGoesToTheMessageOfItsType) {
  ExpectLayer("conv", "biasterm: false pad: 2 group: 3 stride: 4 kernelsize: 5",
              "type: 'Convolution' convolution_param { bias_term: false pad: 2 group: 3 stride: 4 "
              "kernel_size: 5 }");
  ExpectLayer("innerproduct",
              "weight_filler { type: 'gaussian' std: 0.5 } bias_filler { value: 2 } num_output: 3",
              "type: 'InnerProduct' inner_product_param { num_output: 3 weight_filler { type: "
              "'gaussian' std: 0.5 } bias_filler { value: 2 } }");
  ExpectLayer("pool", "pad: 1 stride: 2 kernelsize: 3 pool: STOCHASTIC",
              "type: 'Pooling' pooling_param { pad: 1 stride: 2 kernel_size: 3 pool: STOCHASTIC }");
  ExpectLayer("pool", "pool: AVE", "type: 'Pooling' pooling_param { pool: AVE }");
  ExpectLayer("lrn", "local_size: 3 alpha: 0.1 beta: 0.2 k: 2",
              "type: 'LRN' lrn_param { local_size: 3 alpha: 0.1 beta: 0.2 k: 2 }");
  ExpectLayer("concat", "concat_dim: 2", "type: 'Concat' concat_param { concat_dim: 2 }");
  ExpectLayer(
      "data",
      "source: 's' batchsize: 2 rand_skip: 3 meanfile: 'm' cropsize: 4 mirror: true scale: 2",
      "type: 'Data' data_param { source: 's' batch_size: 2 rand_skip: 3 } transform_param "
      "{ mean_file: 'm' crop_size: 4 mirror: true scale: 2 }");
  ExpectLayer(
      "images",
      "source: 's' batchsize: 2 rand_skip: 3 shuffle_images: true new_height: 5 new_width: 6",
      "type: 'ImageData' image_data_param { source: 's' batch_size: 2 rand_skip: 3 "
      "shuffle: true new_height: 5 new_width: 6 }");
  ExpectLayer("window_data",
              "source: 's' batchsize: 2 det_fg_threshold: 0.25 det_bg_threshold: 0.75 "
              "det_fg_fraction: 0.125 det_context_pad: 3 det_crop_mode: 'square'",
              "type: 'WindowData' window_data_param { source: 's' batch_size: 2 fg_threshold: 0.25 "
              "bg_threshold: 0.75 fg_fraction: 0.125 context_pad: 3 crop_mode: 'square' }");
  ExpectLayer("hdf5_data", "source: 's' batchsize: 2",
              "type: 'HDF5Data' hdf5_data_param { source: 's' batch_size: 2 }");
  ExpectLayer("hdf5_output", "hdf5_output_param { file_name: 'f' }",
              "type: 'HDF5Output' hdf5_output_param { file_name: 'f' }");
  ExpectLayer("infogain_loss", "source: 's'",
              "type: 'InfogainLoss' infogain_loss_param { source: 's' }");
  ExpectLayer(
      "conv", "blobs { num: 1 channels: 1 height: 1 width: 2 data: 3 data: 4 }",
      "type: 'Convolution' blobs { num: 1 channels: 1 height: 1 width: 2 data: 3 data: 4 }");
}

TEST(UpgradeV0, PaddingMovesToTheConvolutionsAndPoolsBehindIt) {
  ExpectUpgrade(R"(
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad1" type: "padding" pad: 2 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 5 } bottom: "pad1" top: "conv1" }
layers { layer { name: "pad2" type: "padding" pad: 1 } bottom: "conv1" top: "pad2" }
layers { layer { name: "conv2" type: "conv" pad: 7 } bottom: "pad2" top: "conv2" }
layers { layer { name: "pool2" type: "pool" } bottom: "pad2" top: "pool2" }
layers { layer { name: "cat" type: "concat" } bottom: "conv2" bottom: "conv1" top: "cat" }
)",
                R"(
layer { name: "input" type: "Input" top: "data"
        input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 4 kernel_size: 5 pad: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2" convolution_param { pad: 1 } }
layer { name: "pool2" type: "Pooling" bottom: "conv1" top: "pool2" pooling_param { pad: 1 } }
layer { name: "cat" type: "Concat" bottom: "conv2" bottom: "conv1" top: "cat" }
)");
}

TEST(UpgradeV0, LayersKeepTheirPlaceInTheFile) {
  const UpgradedNet net(
      "layers { layer { name: 'd' type: 'data' } top: 'd' }\n"
      "layers { layer { name: 'p' type: 'padding' pad: 1 } bottom: 'd' top: 'p' }\n"
      "layers { layer { name: 'c' type: 'conv' } bottom: 'p' top: 'c' }\n");
  EXPECT_EQ(net.upgrade.layer_paths, (std::vector<std::string>{"layers[0]", "layers[2]"}));
  EXPECT_EQ(net.source.Where(net.upgrade.layer_paths[1]), "net.prototxt:3");
}

TEST(UpgradeV0, PaddingBeforeOtherLayersIsRefused) {
  const auto after = [](const std::string& padding, const std::string& layer) {
    return UpgradeError("input: 'd' input: 'e'\n" + padding + "\n" + layer);
  };
  const std::string padding = "layers { layer { name: 'p' type: 'padding' } bottom: 'd' top: 'p' }";
  EXPECT_EQ(after(padding, "layers { layer { name: 'r' type: 'relu' } bottom: 'p' top: 'r' }"),
            "net.prototxt:3: layer 'r': bottom[0]: 'p' is the top of a padding layer: expected a "
            "layer of type conv or pool, not 'relu'");
  EXPECT_EQ(
      after(padding,
            "layers { layer { name: 'c' type: 'conv' } bottom: 'p' bottom: 'd' top: 'c' }"),
      "net.prototxt:3: layer 'c': bottom[0]: 2 bottoms given behind a padding layer, expected 1");
  EXPECT_EQ(
      after("layers { layer { name: 'p' type: 'padding' } bottom: 'd' bottom: 'e' top: 'p' }",
            "layers { layer { name: 'c' type: 'conv' } bottom: 'p' top: 'c' }"),
      "net.prototxt:3: layer 'c': bottom[0]: the padding layer 'p' before it has 2 bottoms and "
      "1 tops, expected 1 of each");
}

TEST(UpgradeV0, WhatTheFormatDidNotHaveIsRefusedWithItsLine) {
  EXPECT_EQ(UpgradeError("name: 'n'\nlayers {\n  layer {\n    name: 'x'\n    type: 'conw' } }"),
            "net.prototxt:5: layer 'x': type: format V0 had no layer type 'conw'");
  EXPECT_EQ(UpgradeError("layers { layer { name: 'x' type: 'relu' }\n  bottom: 'y' }"),
            "net.prototxt:2: layer 'x': bottom[0]: there is no blob 'y' at this point of the net");
  EXPECT_EQ(UpgradeError("layers { layer { name: 'x' type: 'relu' } }\nlayers { name: 'y' }"),
            "net.prototxt:2: layers: entry 1 has no `layer`, others have: formats V0 and V1 are "
            "mixed");
}

TEST(UpgradeV0, FieldsOfOtherTypesAreDroppedAndTold) {
  const UpgradedNet net(
      "layers { layer { name: 'x' type: 'relu'\n  num_output: 3\n new_num: 2 }\n"
      "  include { phase: TEST } }");
  EXPECT_EQ(
      net.upgrade.problems,
      (std::vector<std::string>{
          "net.prototxt:4: layer 'x': include: a layer of format V0 has this field inside of "
          "`layer` only, if at all; dropped",
          "net.prototxt:2: layer 'x': num_output: a layer of type 'relu' has no such parameter; "
          "dropped",
          "net.prototxt:3: layer 'x': new_num: a layer of type 'relu' has no such parameter; "
          "dropped"}));
  EXPECT_EQ(net.net.layer(0).ShortDebugString(), "name: \"x\" type: \"ReLU\"");
}

}  // namespace
}  // namespace millrace::test
