#include "nn/filler.h"
#include "proto/parse.h"
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string DummyDataText(const std::string& param) {
  return "type: 'DummyData' dummy_data_param { " + param + " }";
}

std::string FieldOfComplaint(const std::string& param, int tops) {
  LayerRunner runner(DummyDataText(param));
  try {
    runner.SetUp(tops);
  } catch (const FieldError& error) {
    return error.field();
  }
  return "no error";
}

TEST(DummyDataLayer, FillsWithZerosByDefault) {
  LayerRunner runner(DummyDataText("shape { dim: 2 dim: 3 }"));
  runner.SetUp();
  EXPECT_EQ(runner.Output(), Array(6, 0.0));
  EXPECT_EQ(runner.top().shape(), (Shape{2, 3}));
}

TEST(DummyDataLayer, TakesLegacyDimensionsOnceOrPerTop) {
  LayerRunner runner(DummyDataText("num: 5 channels: 2 channels: 3 height: 4 width: 1 width: 6"));
  runner.SetUp(2);
  EXPECT_EQ(runner.top(0).shape(), (Shape{5, 2, 4, 1}));
  EXPECT_EQ(runner.top(1).shape(), (Shape{5, 3, 4, 6}));
}

TEST(DummyDataLayer, TakesShapesAndFillersOnceOrPerTop) {
  LayerRunner runner(
      DummyDataText("shape { dim: 3 } data_filler { value: 1 } data_filler { value: 2 }"));
  runner.SetUp(2);
  runner.Forward();
  EXPECT_EQ(GetData(runner.top(0)), Array(3, 1.0));
  EXPECT_EQ(GetData(runner.top(1)), Array(3, 2.0));
  LayerRunner one(
      DummyDataText("shape { dim: 3 } shape { dim: 1 dim: 2 } data_filler { value: 4 }"));
  one.SetUp(2);
  one.Forward();
  EXPECT_EQ(GetData(one.top(0)), Array(3, 4.0));
  EXPECT_EQ(GetData(one.top(1)), Array(2, 4.0));
}

TEST(DummyDataLayer, FillsConstantTopsOnceAndOthersAnewInEveryPass) {
  LayerRunner runner(
      DummyDataText("shape { dim: 4 } data_filler { value: 3 } data_filler { type: 'gaussian' }"));
  runner.SetUp(2);
  runner.set_pass(10);
  runner.Forward();
  const Array first = GetData(runner.top(1));
  SetData({5, 5, 5, 5}, &runner.top(0));
  runner.set_pass(11);
  runner.Forward();
  EXPECT_EQ(GetData(runner.top(0)), Array(4, 5.0));
  EXPECT_NE(GetData(runner.top(1)), first);
  runner.set_pass(10);
  runner.Forward();
  EXPECT_EQ(GetData(runner.top(1)), first);
}

TEST(DummyDataLayer, DrawsFromTheStreamOfItsSeedLayerAndPass) {
  const std::string text =
      DummyDataText("shape { dim: 6 } data_filler { type: 'uniform' min: 2 max: 4 }");
  LayerRunner runner(text);
  runner.context().seed = Seed();
  runner.context().layer_id = 5;
  runner.SetUp();
  runner.set_pass(9);
  Rng rng(Seed(), {kRngDummyData, 5, 9});
  std::vector<float> expected(6);
  caffe::FillerParameter filler;
  ParseText("type: 'uniform' min: 2 max: 4", "filler", &filler, nullptr);
  Fill(filler, {6}, &rng, expected.data());
  EXPECT_EQ(runner.Output(), Array(expected.begin(), expected.end()));
}

TEST(DummyDataLayer, NamesTheFieldOfEveryMistake) {
  const std::string at = "dummy_data_param.";
  EXPECT_EQ(FieldOfComplaint("", 1), at + "shape");
  EXPECT_EQ(FieldOfComplaint("shape { dim: 1 } shape { dim: 1 }", 3), at + "shape");
  EXPECT_EQ(FieldOfComplaint("shape { dim: 1 dim: 0 }", 1), at + "shape[0].dim[1]");
  EXPECT_EQ(FieldOfComplaint("shape { dim: 1 } num: 1", 1), at + "shape");
  EXPECT_EQ(FieldOfComplaint("num: 1 channels: 1 height: 1", 1), at + "width");
  EXPECT_EQ(FieldOfComplaint("num: 1 num: 2 channels: 1 height: 1 width: 1", 1), at + "num");
  EXPECT_EQ(FieldOfComplaint("num: 1 channels: 0 height: 1 width: 1", 1), at + "channels[0]");
  EXPECT_EQ(FieldOfComplaint("shape { dim: 1 } data_filler {} data_filler {}", 3),
            at + "data_filler");
  EXPECT_EQ(FieldOfComplaint("shape { dim: 1 } data_filler { type: 'nil' }", 1),
            at + "data_filler[0].type");
}

}  // namespace
}  // namespace millrace::test
