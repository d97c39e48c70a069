#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(SplitLayer, TopsAreTheBottomsMemory) {
  LayerRunner runner("type: 'Split'");
  runner.AddBottom({2, 3}, {1, 2, 3, 4, 5, 6});
  runner.SetUp(3);
  runner.Forward();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(runner.top(i).data(), runner.bottom().data());
    EXPECT_EQ(runner.top(i).shape(), (Shape{2, 3}));
    EXPECT_EQ(GetData(runner.top(i)), (Array{1, 2, 3, 4, 5, 6}));
  }
}

TEST(SplitLayer, FollowsABottomWhoseMemoryMoves) {
  LayerRunner runner("type: 'Split'");
  runner.AddBottom({2}, {1, 2});
  runner.SetUp(2);
  runner.Forward();
  float elsewhere[2] = {7, 8};
  runner.bottom().BindData(elsewhere);
  runner.Forward();
  EXPECT_EQ(GetData(runner.top(1)), (Array{7, 8}));
}

TEST(SplitLayer, FollowsABottomThatGrows) {
  Rng rng(Seed(), {1});
  LayerRunner runner("type: 'Split'");
  runner.AddBottom({2}, {1, 2});
  runner.SetUp(2);
  runner.Forward();
  const Array values = Uniform(3000, -1, 1, &rng);
  runner.Reshape({30, 100}, values);
  runner.Forward();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(runner.top(i).shape(), (Shape{30, 100}));
    EXPECT_EQ(GetData(runner.top(i)), values);
  }
}

TEST(SplitLayer, KeepsEveryMemoryOrder) {
  Rng rng(Seed(), {2});
  const Shape shape = {2, 16, 3, 2};
  const Array values = Uniform(ShapeCount(shape), -1, 1, &rng);
  const auto taken = ForEachLayout("type: 'Split'", shape, values, [&](LayerRunner& runner) {
    EXPECT_EQ(runner.Output(), values);
    EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
  });
  EXPECT_EQ(taken.size(), 4u);
}

TEST(SplitLayer, SumsTheGradientsOfItsTops) {
  Rng rng(Seed(), {3});
  for (int tops : {1, 2, 3, 5}) {
    SCOPED_TRACE(tops);
    LayerRunner runner("type: 'Split'");
    runner.AddBottom({3, 13}, Uniform(39, -1, 1, &rng));
    runner.SetUp(tops);
    runner.Forward();
    Array sum(39, 0.0);
    for (int i = 0; i < tops; ++i) {
      const Array diff = Uniform(39, -1, 1, &rng);
      SetDiff(diff, &runner.top(i));
      for (int k = 0; k < 39; ++k) sum[k] += diff[k];
    }
    runner.Backward(GetDiff(runner.top(0)));
    EXPECT_EQ(Diff(sum, GetDiff(runner.bottom())), "");
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(SplitLayer, PassesOverTopsThatNoGradientReached) {
  LayerRunner runner("type: 'Split'");
  runner.AddBottom({2}, {1, 2});
  runner.SetUp(3);
  runner.Forward();
  SetDiff({9, 9}, &runner.bottom());
  runner.layer().Backward(runner.tops(), {true}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{0, 0}));
  SetDiff({3, 4}, &runner.top(1));
  runner.layer().Backward(runner.tops(), {true}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{3, 4}));
  EXPECT_FALSE(runner.top(0).has_diff());
}

TEST(SplitLayer, LeavesAnUnwantedDiffAlone) {
  LayerRunner runner("type: 'Split'");
  runner.AddBottom({2}, {1, 2});
  runner.SetUp(2);
  runner.Forward();
  SetDiff({9, 9}, &runner.bottom());
  SetDiff({1, 1}, &runner.top(0));
  runner.layer().Backward(runner.tops(), {false}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{9, 9}));
}

}  // namespace
}  // namespace millrace::test
