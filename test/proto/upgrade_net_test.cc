// What is upgraded whatever the format of the layers, and nets that mix formats.
#include "proto/upgrade.h"

#include "test/proto/upgrade_support.h"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

TEST(UpgradeNet, LeavesANetInTodaysFormatAlone) {
  const std::string text =
      "name: 'n' layer { name: 'd' type: 'Data' data_param { scale: 2 } } layer { name: 'r' }";
  const UpgradedNet net(text);
  ExpectUpgrade(text, text);
  EXPECT_EQ(net.upgrade.changes, Strings());
  EXPECT_EQ(net.upgrade.layer_paths, (Strings{"layer[0]", "layer[1]"}));
  caffe::NetParameter empty;
  EXPECT_FALSE(NeedsUpgrade(empty));
  EXPECT_EQ(UpgradeNet(SourceMap(), &empty).changes, Strings());
}

TEST(UpgradeNet, InputFieldsBecomeTheFirstLayer) {
  ExpectUpgrade(
      "input: 'a' input: 'b' input_shape { dim: 2 } input_shape { dim: 3 dim: 4 } "
      "layer { name: 'r' } layer { name: 's' }",
      "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 2 } shape "
      "{ "
      "dim: 3 dim: 4 } } } layer { name: 'r' } layer { name: 's' }");
  ExpectUpgrade(
      "layers { name: 'r' } input: 'a' input_dim: [1, 2, 3, 4]",
      "layer { name: 'input' type: 'Input' top: 'a' input_param { shape { dim: [1, 2, 3, 4] "
      "} } } layer { name: 'r' }");
  const UpgradedNet net("input: 'a' input_shape { }\nlayer { name: 'r' }");
  EXPECT_EQ(net.upgrade.layer_paths, (Strings{"input", "layer[0]"}));
  EXPECT_EQ(net.upgrade.changes, Strings{"input fields"});
}

TEST(UpgradeNet, InputsWithoutShapesOfOldModelsAreDropped) {
  ExpectUpgrade("input: 'a' layer { name: 'r' }", "layer { name: 'r' }");
}

TEST(UpgradeNet, MissingInputShapesAreCounted) {
  EXPECT_EQ(UpgradeError("input: 'a' input: 'b'\ninput_dim: 2 input_dim: 3"),
            "net.prototxt:2: input_dim: 2 given, expected 8 for 2 input blobs");
  EXPECT_EQ(UpgradeError("input: 'a' input: 'b'\ninput_shape { dim: 3 }"),
            "net.prototxt:2: input_shape: 1 given, expected 2 for 2 input blobs");
}

TEST(UpgradeNet, InputShapesBeyondTheInputsAreIgnored) {
  const UpgradedNet dims("input: 'a'\ninput_dim: [1, 2, 3, 4]\ninput_dim: 5\ninput_dim: 6");
  ASSERT_EQ(dims.net.layer_size(), 1);
  EXPECT_EQ(dims.net.layer(0).input_param().shape(0).dim_size(), 4);
  EXPECT_EQ(dims.upgrade.ignored,
            std::vector<std::string>{
                "net.prototxt:2: input_dim: 2 ignored, beyond those of the 1 input blobs"});
  const UpgradedNet shapes("input: 'a' input_shape { dim: 7 } input_shape { dim: 8 }");
  EXPECT_EQ(shapes.net.layer(0).input_param().shape_size(), 1);
  EXPECT_EQ(shapes.upgrade.ignored.size(), 1u);
}

// ---- CROP layers, whose offsets follow from the layers below ----

std::string V1Layer(const std::string& type, const std::string& bottom, const std::string& top,
                    const std::string& param = "") {
  return StrCat("layers { name: '", top, "' type: ", type, " bottom: '", bottom, "' top: '", top,
                "' ", param, " }\n");
}
std::string V1Convolution(const std::string& bottom, const std::string& top, int kernel,
                          int stride = 1, int pad = 0, const char* type = "CONVOLUTION") {
  return V1Layer(type, bottom, top,
                 StrCat("convolution_param { num_output: 2 kernel_size: ", kernel,
                        " stride: ", stride, " pad: ", pad, " }"));
}
std::string V1Pool(const std::string& bottom, const std::string& top) {
  return V1Layer("POOLING", bottom, top, "pooling_param { kernel_size: 2 stride: 2 }");
}
std::string V1Crop(const std::string& bottom, const std::string& over, const std::string& top) {
  return StrCat("layers { type: CROP name: '", top, "' bottom: '", bottom, "' bottom: '", over,
                "' top: '", top, "' }\n");
}
std::vector<uint32_t> OffsetsOf(const caffe::NetParameter& net, const std::string& name) {
  for (const auto& layer : net.layer()) {
    if (layer.name() != name) continue;
    return {layer.crop_param().offset().begin(), layer.crop_param().offset().end()};
  }
  return {};
}

// The geometry of the FCN nets of Long, Shelhamer and Darrell, for which their later nets in
// today's format state the offsets: 19 for FCN-32s; 5, 9 and 31 for FCN-8s.
TEST(UpgradeNet, CropsFindTheirOffsets) {
  std::string base =
      V1Convolution("data", "c1", 3, 1, 100) + V1Layer("RELU", "c1", "c1") +
      V1Convolution("c1", "c1b", 3, 1, 1) + V1Pool("c1b", "p1") +
      V1Convolution("p1", "c2", 3, 1, 1) + V1Pool("c2", "p2") + V1Convolution("p2", "c3", 3, 1, 1) +
      V1Pool("c3", "p3") + V1Convolution("p3", "c4", 3, 1, 1) + V1Pool("c4", "p4") +
      V1Convolution("p4", "c5", 3, 1, 1) + V1Pool("c5", "p5") + V1Convolution("p5", "fc6", 7) +
      V1Layer("DROPOUT", "fc6", "fc6") + V1Convolution("fc6", "score", 1);
  const UpgradedNet by32("input: 'data' input_dim: [1, 3, 500, 500]\n" + base +
                         V1Convolution("score", "up", 64, 32, 0, "DECONVOLUTION") +
                         V1Crop("up", "data", "crop"));
  EXPECT_EQ(OffsetsOf(by32.net, "crop"), (std::vector<uint32_t>{19, 19}));
  EXPECT_EQ(by32.upgrade.problems, std::vector<std::string>());
  const UpgradedNet by8(
      base + V1Convolution("score", "up2", 4, 2, 0, "DECONVOLUTION") +
      V1Convolution("p4", "s4", 1) + V1Crop("s4", "up2", "s4c") +
      "layers { name: 'sum4' type: ELTWISE bottom: 'up2' bottom: 's4c' top: 'sum4' }\n" +
      V1Convolution("sum4", "up4", 4, 2, 0, "DECONVOLUTION") + V1Convolution("p3", "s3", 1) +
      V1Crop("s3", "up4", "s3c") +
      "layers { name: 'sum3' type: ELTWISE bottom: 'up4' bottom: 's3c' top: 'sum3' }\n" +
      V1Convolution("sum3", "up8", 16, 8, 0, "DECONVOLUTION") + V1Crop("up8", "data", "crop"));
  EXPECT_EQ(OffsetsOf(by8.net, "s4c"), (std::vector<uint32_t>{5, 5}));
  EXPECT_EQ(OffsetsOf(by8.net, "s3c"), (std::vector<uint32_t>{9, 9}));
  EXPECT_EQ(OffsetsOf(by8.net, "crop"), (std::vector<uint32_t>{31, 31}));
}

TEST(UpgradeNet, CropsWithoutAnOffsetAreRefused) {
  EXPECT_EQ(UpgradeError(V1Convolution("data", "a", 3) + V1Convolution("other", "b", 3) +
                         V1Crop("a", "b", "crop")),
            "net.prototxt:3: layers[2]: the offset of a CROP layer follows from a blob that both "
            "bottoms come from, but 'a' comes from 'data' and 'b' from 'other'");
  EXPECT_CONTAINS(UpgradeError(V1Convolution("data", "a", 2, 2) + V1Crop("a", "data", "crop")),
                  "'a' cannot be cropped to 'data': its places are 2 apart in 'data'");
  EXPECT_CONTAINS(UpgradeError(V1Convolution("data", "a", 3) + V1Crop("a", "data", "crop")),
                  "cannot be cropped");
  EXPECT_CONTAINS(UpgradeError(V1Layer("CROP", "a", "b")), "1 bottoms given, expected 2");
}

TEST(UpgradeNet, StatisticsOfOldBatchNormLayersAreNotTrained) {
  ExpectUpgrade(
      "layer { name: 'b' type: 'BatchNorm' param { name: 'm' lr_mult: 2 } param { } "
      "param { decay_mult: 1 } }",
      "layer { name: 'b' type: 'BatchNorm' param { name: 'm' lr_mult: 0 decay_mult: 0 } "
      "param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } }");
  const std::string two = "layer { name: 'b' type: 'BatchNorm' param { } param { } }";
  ExpectUpgrade(two, two);
  const std::string other = "layer { name: 'b' type: 'Scale' param { } param { } param { } }";
  ExpectUpgrade(other, other);
}

TEST(UpgradeNet, TwoFormatsOfLayersInOneNetAreRefused) {
  EXPECT_EQ(UpgradeError("layer { name: 'a' }\nlayers { name: 'b' type: RELU }"),
            "net.prototxt:2: layers: the net has `layers` (the format before August 2014) and "
            "`layer`, expected one of them");
  EXPECT_CONTAINS(UpgradeError("layer { name: 'a' }\nlayers { layer { name: 'b' } }"),
                  "net.prototxt:2: layers: the net has `layers`");
}

TEST(UpgradeNet, SaysWhatWasOld) {
  EXPECT_EQ(UpgradedNet("layers { layer { type: 'relu' } } input: 'a'").upgrade.changes,
            (Strings{"V0 layers", "input fields"}));
  EXPECT_EQ(UpgradedNet("layers { type: DATA data_param { mirror: true } }").upgrade.changes,
            (Strings{"V1 layers", "transformation fields of data layers"}));
}

TEST(UpgradeNet, KeepsWhatIsOfTheNet) {
  ExpectUpgrade("name: 'n' force_backward: true debug_info: true state { level: 2 } layers { }",
                "name: 'n' force_backward: true debug_info: true state { level: 2 } layer { }");
}

}  // namespace
}  // namespace millrace::test
