#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string EmbedText(bool bias) {
  return StrCat("type: 'Embed' embed_param { num_output: 3 input_dim: 5 bias_term: ",
                bias ? "true" : "false", " }");
}

TEST(EmbedLayer, LooksUpRowsAndSumsTheirGradients) {
  Rng rng(Seed(), {1});
  for (const bool bias : {false, true}) {
    const Array index = {4, 0, 2, 4, 4, 1, 0, 2};
    LayerRunner runner(EmbedText(bias));
    runner.AddBottom({2, 4}, index);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{2, 4, 3}));
    ASSERT_EQ(runner.layer().params().size(), bias ? 2u : 1u);
    ASSERT_EQ(runner.param(0).shape(), (Shape{5, 3}));
    const Array weight = Uniform(15, -1, 1, &rng), offset = Uniform(3, -1, 1, &rng);
    SetData(weight, &runner.param(0));
    if (bias) SetData(offset, &runner.param(1));
    const Array dy = Uniform(24, -1, 1, &rng);
    Array y, dweight(15, 0.0), dbias(3, 0.0);
    for (int i = 0; i < 8; ++i) {
      for (int k = 0; k < 3; ++k) {
        const auto at = static_cast<size_t>(index[i]) * 3 + k;
        y.push_back(weight[at] + (bias ? offset[k] : 0));
        dweight[at] += dy[i * 3 + k];
        dbias[k] += dy[i * 3 + k];
      }
    }
    EXPECT_EQ(Diff(y, runner.Output(), 1e-6), "");
    runner.Backward(dy);
    EXPECT_EQ(Diff(dweight, GetDiff(runner.param(0)), 1e-6), "");
    if (bias) {
      EXPECT_EQ(runner.param(1).shape(), Shape{3});
      EXPECT_EQ(Diff(dbias, GetDiff(runner.param(1)), 1e-6), "");
    }
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(EmbedLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner(EmbedText(false));
  runner.AddBottom({1}, {1});
  runner.SetUp();
  SetData({0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42}, &runner.param(0));
  runner.Reshape({1, 2}, {3, 0});
  EXPECT_EQ(runner.top().shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(runner.Output(), (Array{30, 31, 32, 0, 1, 2}));
  runner.Backward({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(GetDiff(runner.param(0)), (Array{4, 5, 6, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0}));
}

TEST(EmbedLayer, ReportsAnIndexThatIsNotInTheTable) {
  for (const double index : {-1.0, 5.0, 1e9}) {
    LayerRunner runner("name: 'words' " + EmbedText(true));
    runner.AddBottom({3}, {0, index, 2});
    runner.SetUp();
    runner.Forward();
    const std::string error = ErrorOf([&] { runner.layer().CheckForward(runner.bottoms()); });
    EXPECT_CONTAINS(error, "layer 'words': index ");
    EXPECT_CONTAINS(error, "at position 1 is not one of 0 to 4");
    SetData({0, 1, 4}, &runner.bottom());
    runner.Forward();
    runner.layer().CheckForward(runner.bottoms());  // the error ends with its cause
  }
}

TEST(EmbedLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'Embed' embed_param { " + param + " }");
    runner.AddBottom({2}, Array(2));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("input_dim: 3"), "expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 3"), "expected 1 to 16777216");
  EXPECT_CONTAINS(complaint("num_output: 3 input_dim: 16777217"), "expected 1 to 16777216");
  EXPECT_CONTAINS(complaint("num_output: 3 input_dim: 3 weight_filler { type: 'x' }"),
                  "there is no filler 'x'");
  EXPECT_CONTAINS(complaint("num_output: 3 input_dim: 3 bias_filler { type: 'x' }"),
                  "there is no filler 'x'");
}

}  // namespace
}  // namespace millrace::test
