// Nets and models in Caffe's earlier formats.
#include "test/nn/net_support.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

// The same net in three formats.
const char kV0[] = R"(
input: "data" input_dim: 2 input_dim: 3 input_dim: 6 input_dim: 6
layers { layer { name: "pad1" type: "padding" pad: 1 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 3 stride: 2
                 weight_filler { type: "xavier" } blobs_lr: 0 blobs_lr: 2 }
         bottom: "pad1" top: "conv1" }
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "ip" type: "innerproduct" num_output: 5 weight_filler { type: "xavier" } }
         bottom: "conv1" top: "ip" }
)";
const char kV1[] = R"(
input: "data" input_dim: 2 input_dim: 3 input_dim: 6 input_dim: 6
layers { name: "conv1" type: CONVOLUTION blobs_lr: 0 blobs_lr: 2 bottom: "data" top: "conv1"
         convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1
                             weight_filler { type: "xavier" } } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "ip" type: INNER_PRODUCT bottom: "conv1" top: "ip"
         inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
)";
const char kToday[] = R"(
layer { name: "input" type: "Input" top: "data"
        input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        param { lr_mult: 0 } param { lr_mult: 2 }
        convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1
                            weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "ip" type: "InnerProduct" bottom: "conv1" top: "ip"
        inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
)";

class NetFormat : public testing::TestWithParam<const char*> {};

TEST_P(NetFormat, ComputesWhatTheNetOfTodayComputes) {
  TestNet old(GetParam()), today(kToday);
  EXPECT_EQ(old.LayerNames(), today.LayerNames());
  FillRandom(old->FindBlob("data"), 1), FillRandom(today->FindBlob("data"), 1);
  old->Forward(), today->Forward();
  EXPECT_EQ(old->OutputValues(), today->OutputValues());
  ASSERT_EQ(old->params().size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(old->params()[i].lr_mult, today->params()[i].lr_mult);
  EXPECT_EQ(old->params()[1].lr_mult, 2);
}

TEST_P(NetFormat, IsTold) {
  const std::vector<std::string> notices = TestNet(GetParam())->notices();
  ASSERT_EQ(notices.size(), GetParam() == kToday ? 0u : 2u);
  if (notices.empty()) return;
  EXPECT_EQ(notices[0], StrCat("net.prototxt: read ", GetParam() == kV0 ? "V0" : "V1",
                               " layers, a form of earlier versions; upgrade_net_proto_text "
                               "rewrites it"));
}

INSTANTIATE_TEST_SUITE_P(All, NetFormat, testing::Values(kV0, kV1, kToday));

TEST(NetFormatErrors, PointToTheLineOfTheOldFile) {
  EXPECT_EQ(ErrorOf([] {
              TestNet net(
                  "input: 'x'\ninput_shape { dim: 2 dim: 3 dim: 4 dim: 4 }\n"
                  "layers { name: 'l' type: POOLING bottom: 'x' top: 'y'\n"
                  "  pooling_param {\n    kernel_size: 0 } }");
            }).substr(0, 45),
            "net.prototxt:5: layer 'l': pooling_param.kern");
  EXPECT_EQ(ErrorOf([] {
              TestNet net(
                  "input: 'x'\ninput_shape { dim: 2 dim: 3 }\n"
                  "layers { layer { name: 'p' type: 'padding' } bottom: 'x' top: 'p' }\n"
                  "layers {\n  layer { name: 'c' type: 'conv' }\n  bottom: 'p' top: 'q' }\n"
                  "layers {\n  layer { name: 'r' type: 'relu' }\n  bottom: 'q' bottom: 'p' }\n");
            }),
            "net.prototxt:9: layer 'r': bottom[1]: 'p' is the top of a padding layer: expected a "
            "layer of type conv or pool, not 'relu'");
  EXPECT_CONTAINS(ErrorOf([] { TestNet net("input: 'x'\ninput_shape { dim: 2 dim: -1 }\n"); }),
                  "net.prototxt:1: layer 'input': input_param.shape[0].dim[1]: -1 given");
  EXPECT_EQ(ErrorOf([] {
              TestNet net(
                  "input: 'x' input_shape { dim: 2 }\n"
                  "layers { name: 'l' type: RELU bottom: 'x'\n   bottom: 'z' top: 'y' }");
            }),
            "net.prototxt:3: layer 'l': bottom[1]: there is no blob 'z' at this point of the net");
}

// Model text for "ip" of kToday: the values i and the bias 10 * i.
std::string Blobs() {
  std::string weights = "blobs { num: 1 channels: 1 height: 5 width: 36 ";
  for (int i = 0; i < 180; ++i) weights += StrCat("data: ", i, " ");
  std::string bias = "blobs { num: 1 channels: 1 height: 1 width: 5 ";
  for (int i = 0; i < 5; ++i) bias += StrCat("data: ", 10 * i, " ");
  return weights + "} " + bias + "} ";
}

TEST(NetFormatModels, WeightsOfEachFormatAreLoaded) {
  for (const std::string& text :
       {StrCat("input: 'data' layers { layer { name: 'ip' type: 'innerproduct' ", Blobs(), "} }"),
        StrCat("layers { name: 'ip' type: INNER_PRODUCT ", Blobs(), "}"),
        StrCat("layers { name: 'ip' ", Blobs(), "}"),
        StrCat("input: 'data' layer { name: 'ip' type: 'InnerProduct' ", Blobs(), "}")}) {
    caffe::NetParameter model, binary;
    ParseText(text, "model", &model, nullptr);
    ASSERT_TRUE(binary.ParseFromString(model.SerializeAsString()));
    TestNet net(kToday);
    EXPECT_EQ(net->CopyWeightsFrom(binary, "old.caffemodel"), 1);
    EXPECT_EQ(net.Weights("ip/0")[179], 179);
    EXPECT_EQ(net.Weights("ip/1"), (std::vector<float>{0, 10, 20, 30, 40}));
  }
}

TEST(NetFormatModels, ErrorsNameTheFileOfTheModel) {
  caffe::NetParameter model;
  ParseText("layers { layer { name: 'ip' type: 'outerproduct' } }", "model", &model, nullptr);
  TestNet net(kToday);
  EXPECT_EQ(ErrorOf([&] { net->CopyWeightsFrom(model, "old.caffemodel"); }),
            "old.caffemodel: layer 'ip': type: format V0 had no layer type 'outerproduct'");
}

}  // namespace
}  // namespace millrace::test
