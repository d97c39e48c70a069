// What is upgraded whatever the format of the layers, and nets that mix formats.
#include "proto/upgrade_net.h"

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
