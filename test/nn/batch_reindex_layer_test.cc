#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(BatchReindexLayer, SelectsItemsAndSumsTheirGradients) {
  Rng rng(Seed(), {1});
  const Array index = {3, 0, 3, 1, 3};
  const Array x = Uniform(4 * 6, -1, 1, &rng), dy = Uniform(5 * 6, -1, 1, &rng);
  LayerRunner runner("type: 'BatchReindex'");
  runner.AddBottom({4, 2, 3}, x);
  runner.AddBottom({5}, index);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), (Shape{5, 2, 3}));
  Array y, dx(24, 0.0);
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 6; ++k) {
      const auto at = static_cast<size_t>(index[i]) * 6 + k;
      y.push_back(x[at]);
      dx[at] += dy[i * 6 + k];
    }
  }
  EXPECT_EQ(runner.Output(), y);
  runner.Backward(dy);
  EXPECT_EQ(Diff(dx, GetDiff(runner.bottom(0)), 1e-6), "");
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(BatchReindexLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'BatchReindex'");
  runner.AddBottom({1, 1}, {7});
  runner.AddBottom({2}, {0, 0});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), (Array{7, 7}));
  SetData({1, 0}, &runner.bottom(1));
  runner.Reshape({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(runner.Output(), (Array{3, 4, 1, 2}));
}

TEST(BatchReindexLayer, ReportsAnIndexThatIsNotInTheBatch) {
  LayerRunner runner("type: 'BatchReindex'");
  runner.AddBottom({2, 1}, {7, 8});
  runner.AddBottom({3}, {0, 1, 2});
  runner.SetUp();
  runner.Forward();
  EXPECT_CONTAINS(ErrorOf([&] { runner.layer().CheckForward(runner.bottoms()); }),
                  "index 2 at position 2 is not one of 0 to 1");
}

TEST(BatchReindexLayer, RefusesIndicesWithSeveralAxes) {
  LayerRunner runner("type: 'BatchReindex'");
  runner.AddBottom({2, 1}, {7, 8});
  runner.AddBottom({1, 1}, {0});
  EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "has 2 axes, expected 1");
}

}  // namespace
}  // namespace millrace::test
