// The layers that give a blob another shape: Reshape and Flatten.
#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

Shape TopShape(const std::string& layer, const Shape& bottom) {
  LayerRunner runner(layer);
  runner.AddBottom(bottom, Array(ShapeCount(bottom)));
  runner.SetUp();
  return runner.top().shape();
}

std::string Reshaped(const std::string& param) {
  return "type: 'Reshape' reshape_param { " + param + " }";
}
std::string Dims(const std::vector<int>& dims) {
  std::string text = "shape {";
  for (int dim : dims) text += StrCat(" dim: ", dim);
  return text + " } ";
}
std::string Flattened(const std::string& param) {
  return "type: 'Flatten' flatten_param { " + param + " }";
}

TEST(ReshapeLayer, CopiesAndInfersSizes) {
  const Shape bottom = {2, 8, 3, 4};
  EXPECT_EQ(TopShape(Reshaped(Dims({0, 0, 12})), bottom), (Shape{2, 8, 12}));
  EXPECT_EQ(TopShape(Reshaped(Dims({0, -1})), bottom), (Shape{2, 96}));
  EXPECT_EQ(TopShape(Reshaped(Dims({0, 2, 4, -1})), bottom), (Shape{2, 2, 4, 12}));
  EXPECT_EQ(TopShape(Reshaped(Dims({-1})), bottom), (Shape{192}));
  EXPECT_EQ(TopShape(Reshaped(Dims({192})), bottom), (Shape{192}));
}

TEST(ReshapeLayer, InfersSizesOfAnEmptyBottom) {
  EXPECT_EQ(TopShape(Reshaped(Dims({0, 2, -1})), {0, 6}), (Shape{0, 2, 3}));
  EXPECT_EQ(TopShape(Reshaped(Dims({2, -1}) + "axis: 1"), {0, 6}), (Shape{0, 2, 3}));
  EXPECT_EQ(TopShape(Reshaped(Dims({-1, 6})), {0, 6}), (Shape{0, 6}));
  EXPECT_EQ(TopShape(Reshaped(Dims({3, -1})), {0, 6}), (Shape{3, 0}));
  EXPECT_EQ(TopShape(Reshaped(Dims({0, 6}) + "axis: 0"), {0, 2, 3}), (Shape{0, 6}));
}

TEST(ReshapeLayer, ReplacesARangeOfAxes) {
  const Shape bottom = {2, 8, 3, 4};
  EXPECT_EQ(TopShape(Reshaped(Dims({4, 2}) + "axis: 1 num_axes: 1"), bottom),
            (Shape{2, 4, 2, 3, 4}));
  EXPECT_EQ(TopShape(Reshaped(Dims({-1}) + "axis: 1"), bottom), (Shape{2, 96}));
  EXPECT_EQ(TopShape(Reshaped(Dims({1}) + "axis: 1 num_axes: 0"), bottom), (Shape{2, 1, 8, 3, 4}));
  EXPECT_EQ(TopShape(Reshaped(Dims({1, 1}) + "axis: -1"), bottom), (Shape{2, 8, 3, 4, 1, 1}));
  EXPECT_EQ(TopShape(Reshaped(Dims({0, -1, 0}) + "axis: 1"), {2, 3, 4, 5}), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(TopShape(Reshaped(""), {1, 1}), Shape{});
}

TEST(ReshapeLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    return ErrorOf([&] { TopShape(Reshaped(param), {2, 8, 3}); });
  };
  EXPECT_CONTAINS(complaint(Dims({-1, -1})), "a second -1");
  EXPECT_CONTAINS(complaint(Dims({-2})), "expected a positive number");
  EXPECT_CONTAINS(complaint(Dims({0, 0, 0, 0})), "the bottom has no axis 3");
  EXPECT_CONTAINS(complaint(Dims({5, -1})), "cannot be divided");
  EXPECT_CONTAINS(complaint(Dims({47})), "cannot be divided");
  EXPECT_CONTAINS(complaint(Dims({1}) + "axis: 4"), "the bottom has 3 axes");
  EXPECT_CONTAINS(complaint(Dims({1}) + "axis: -5"), "the bottom has 3 axes");
  EXPECT_CONTAINS(complaint(Dims({1}) + "axis: 2 num_axes: 2"), "expected -1 to 1");
  EXPECT_CONTAINS(complaint(Dims({1}) + "num_axes: -2"), "expected -1 to 3");
}

TEST(FlattenLayer, JoinsARangeOfAxes) {
  const Shape bottom = {2, 3, 4, 5};
  EXPECT_EQ(TopShape(Flattened(""), bottom), (Shape{2, 60}));
  EXPECT_EQ(TopShape(Flattened("axis: 0"), bottom), (Shape{120}));
  EXPECT_EQ(TopShape(Flattened("end_axis: 2"), bottom), (Shape{2, 12, 5}));
  EXPECT_EQ(TopShape(Flattened("axis: -2 end_axis: -1"), bottom), (Shape{2, 3, 20}));
  EXPECT_EQ(TopShape(Flattened("axis: 1 end_axis: 1"), bottom), bottom);
}

TEST(FlattenLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    return ErrorOf([&] { TopShape(Flattened(param), {2, 3, 4}); });
  };
  EXPECT_CONTAINS(complaint("axis: 3"), "the bottom has 3 axes");
  EXPECT_CONTAINS(complaint("end_axis: -4"), "the bottom has 3 axes");
  EXPECT_CONTAINS(complaint("axis: 2 end_axis: 1"), "not before axis 2");
}

TEST(ViewLayers, UseTheBottomsMemory) {
  for (const std::string& text : {Flattened(""), Reshaped(Dims({0, -1}))}) {
    LayerRunner runner(text);
    runner.AddBottom({1, 2, 2}, {1, 2, 3, 4});
    runner.SetUp();
    runner.Forward();
    EXPECT_EQ(runner.top().data(), runner.bottom().data());
    runner.Reshape({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(runner.top().shape(), (Shape{2, 4}));
    EXPECT_EQ(runner.Output(), (Array{1, 2, 3, 4, 5, 6, 7, 8}));
    float elsewhere[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    runner.bottom().BindData(elsewhere);
    EXPECT_EQ(runner.Output(), (Array{9, 8, 7, 6, 5, 4, 3, 2}));
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(ViewLayers, NeedPlainOrder) {
  Rng rng(Seed(), {1});
  const Array values = Uniform(2 * 16 * 6, -1, 1, &rng);
  ForEachLayout(Flattened(""), {2, 16, 2, 3}, values, [&](LayerRunner& runner) {
    EXPECT_EQ(runner.bottom().layout(), Layout::kPlain);
    EXPECT_EQ(runner.Output(), values);
  });
}

TEST(ViewLayers, DoNotWorkInPlace) {
  const std::string error = ErrorOf([] {
    TestNet(
        "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
        "layer { name: 'f' type: 'Flatten' bottom: 'x' top: 'x' }");
  });
  EXPECT_CONTAINS(error, "cannot work in place");
}

// The layer in place must not change the values that the other consumer of 'x' reads.
TEST(ViewLayers, CopyForALayerThatWorksInPlace) {
  TestNet net(
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: 2 } } }"
      "layer { name: 'f' type: 'Flatten' bottom: 'x' top: 'f' }"
      "layer { name: 'r' type: 'ReLU' bottom: 'f' top: 'f' }"
      "layer { name: 't' type: 'Tile' bottom: 'x' top: 't' tile_param { tiles: 1 } loss_weight: 1 }"
      "layer { name: 's' type: 'Reduction' bottom: 'f' top: 's' loss_weight: 1 }");
  SetData({-1, 2, -3, 4}, net->FindBlob("x"));
  EXPECT_EQ(net.Pass(), 2 + 6);
  EXPECT_EQ(GetData(*net->FindBlob("f")), (Array{0, 2, 0, 4}));
  EXPECT_EQ(GetData(*net->FindBlob("t")), (Array{-1, 2, -3, 4}));
  EXPECT_EQ(GetDiff(*net->FindBlob("x")), (Array{1, 2, 1, 2}));
}

// A net needs the bytes of the gradients and the input: none for the values of the view.
TEST(ViewLayers, NeedNoMemoryForValues) {
  const auto bytes = [](const std::string& layer) {
    TestNet net(
        "force_backward: true "
        "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 4 } } }"
        "layer { name: 'y' bottom: 'x' top: 'y' " +
        layer + " loss_weight: 1 }");
    return net->activation_bytes();
  };
  EXPECT_EQ(bytes(Flattened("")) + 24 * sizeof(float),
            bytes("type: 'Tile' tile_param { tiles: 1 }"));
}

}  // namespace
}  // namespace millrace::test
