#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

constexpr const char* kFilterText = "type: 'Filter' bottom: 'a' bottom: 'b' bottom: 'selector'";

TEST(FilterLayer, PassesOnTheSelectedItems) {
  Rng rng(Seed(), {1});
  const Array a = Uniform(5 * 6, -1, 1, &rng), b = Uniform(5, -1, 1, &rng);
  for (const std::vector<int>& selected :
       {std::vector<int>{0, 1, 2, 3, 4}, {0, 3, 4}, {1}, {1, 3}, {}}) {
    Array selector(5, 0.0);
    for (const int i : selected) selector[i] = i % 2 ? -0.5 : 1;
    LayerRunner runner(kFilterText);
    runner.AddBottom({5, 2, 3}, a);
    runner.AddBottom({5}, b);
    runner.AddBottom({5, 1, 1}, selector);
    runner.SetUp(2);
    EXPECT_EQ(runner.top(0).shape(), (Shape{5, 2, 3}));  // as many as there may be
    runner.layer().Reshape(runner.bottoms(), runner.tops());
    const auto items = static_cast<int64_t>(selected.size());
    ASSERT_EQ(runner.top(0).shape(), (Shape{items, 2, 3}));
    ASSERT_EQ(runner.top(1).shape(), (Shape{items}));
    runner.Forward();
    Array top_a, top_b, da(30, 0.0), db(5, 0.0);
    const Array diff = Uniform(items * 6, -1, 1, &rng), diff_b = Uniform(items, -1, 1, &rng);
    for (size_t j = 0; j < selected.size(); ++j) {
      const int i = selected[j];
      for (int k = 0; k < 6; ++k) {
        top_a.push_back(a[i * 6 + k]);
        da[i * 6 + k] = diff[j * 6 + k];
      }
      top_b.push_back(b[i]);
      db[i] = diff_b[j];
    }
    EXPECT_EQ(GetData(runner.top(0)), top_a);
    EXPECT_EQ(GetData(runner.top(1)), top_b);
    SetDiff(diff_b, &runner.top(1));
    runner.Backward(diff);
    EXPECT_EQ(GetDiff(runner.bottom(0)), da);
    EXPECT_EQ(GetDiff(runner.bottom(1)), db);
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(FilterLayer, RefusesShapesThatDoNotFit) {
  const auto complaint = [](const Shape& a, const Shape& selector, int tops) {
    LayerRunner runner("type: 'Filter' bottom: 'a' bottom: 'selector'");
    runner.AddBottom(a, Array(ShapeCount(a)));
    runner.AddBottom(selector, Array(ShapeCount(selector)));
    return ErrorOf([&] { runner.SetUp(tops); });
  };
  EXPECT_CONTAINS(complaint({2, 3}, {2}, 2), "expected 1, one per bottom but the last");
  EXPECT_CONTAINS(complaint({2, 3}, {2, 2}, 1), "expected one value per item");
  EXPECT_CONTAINS(complaint({3, 3}, {2}, 1), "expected 2 items");
}

// The layers behind a Filter compute on another number of items in every pass.
TEST(FilterLayer, ReshapesTheLayersBehindIt) {
  TestNet net(
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'x' top: 's' input_param {"
      "  shape { dim: 4 dim: 2 } shape { dim: 4 } } }"
      "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 's' top: 'y' }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'y' top: 'z' inner_product_param {"
      "  num_output: 1 weight_filler { type: 'constant' value: 1 } } }"
      "layer { name: 'l' type: 'Reduction' bottom: 'z' top: 'l' loss_weight: 1 }");
  Blob& x = *net->FindBlob("x");
  Blob& selector = *net->FindBlob("s");
  SetData({1, 2, 3, 4, 5, 6, 7, 8}, &x);
  for (const Array& chosen : {Array{0, 1, 0, 1}, Array{1, 1, 1, 1}, Array{0, 0, 1, 0}}) {
    SetData(chosen, &selector);
    double expected = 0;
    Array gradient;
    for (int i = 0; i < 4; ++i) {
      expected += chosen[i] * (4 * i + 3);
      gradient.insert(gradient.end(), 2, chosen[i]);
    }
    EXPECT_EQ(net.Pass(), expected);
    EXPECT_EQ(GetDiff(x), gradient);
    const auto items = static_cast<int64_t>(chosen[0] + chosen[1] + chosen[2] + chosen[3]);
    EXPECT_EQ(net->FindBlob("z")->shape(), (Shape{items, 1}));
  }
}

// A top with a loss weight may have fewer values than when the net was built.
TEST(FilterLayer, CountsTheLossOfTheSelectedItemsOnly) {
  TestNet net(
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'x' top: 'w' top: 's' input_param {"
      "  shape { dim: 3 } shape { dim: 3 } shape { dim: 3 } } }"
      "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'w' bottom: 's' top: 'y' top: 'v'"
      "  loss_weight: 1 loss_weight: 10 }");
  SetData({1, 2, 4}, net->FindBlob("x"));
  SetData({3, 5, 7}, net->FindBlob("w"));
  SetData({1, 0, 1}, net->FindBlob("s"));
  EXPECT_EQ(net.Pass(), 1 + 4 + 10 * (3 + 7));
  EXPECT_EQ(GetDiff(*net->FindBlob("x")), (Array{1, 0, 1}));
  EXPECT_EQ(GetDiff(*net->FindBlob("w")), (Array{10, 0, 10}));
}

}  // namespace
}  // namespace millrace::test
