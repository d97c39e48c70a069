#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

std::string Text(double slope) {
  return StrCat("type: 'ReLU' relu_param { negative_slope: ", slope, " }");
}

TEST(ReluLayer, MatchesTheReferenceInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (double slope : {0.0, 0.125, -0.5, 1.5}) {
    for (const Shape& shape : {Shape{2, 16, 3, 5}, Shape{3, 7}, Shape{1}, Shape{2, 3, 4, 2, 3}}) {
      const Array x = Apart(ShapeCount(shape), 0.1, &rng);
      const Array dy = Uniform(ShapeCount(shape), -1, 1, &rng);
      const auto taken = ForEachLayout(Text(slope), shape, x, [&](LayerRunner& runner) {
        EXPECT_EQ(Diff(reference::ReluForward(x, slope), runner.Output(), 1e-6), "");
        EXPECT_EQ(runner.top().layout(), runner.bottom().layout());
        runner.Backward(dy);
        EXPECT_EQ(Diff(reference::ReluBackward(x, dy, slope), GetDiff(runner.bottom()), 1e-6), "");
      });
      EXPECT_EQ(taken.size(), shape == (Shape{2, 16, 3, 5}) ? 4u : 1u);
    }
  }
}

TEST(ReluLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {2});
  for (double slope : {0.0, 0.25, -0.5}) {
    for (bool in_place : {false, true}) {
      SCOPED_TRACE(StrCat(slope, in_place ? " in place" : ""));
      LayerRunner runner(Text(slope));
      runner.AddBottom({4, 10}, Apart(40, 0.1, &rng));
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(ReluLayer, FollowsABottomThatGrows) {
  Rng rng(Seed(), {3});
  LayerRunner runner(Text(0));
  runner.AddBottom({2}, {1, -1});
  runner.SetUp();
  const Array x = Apart(600, 0.1, &rng);
  runner.Reshape({20, 30}, x);
  EXPECT_EQ(Diff(reference::ReluForward(x, 0), runner.Output()), "");
}

TEST(ReluLayer, RemembersSignsThatItHidesInPlace) {
  LayerRunner runner(Text(-2));
  runner.AddBottom({2}, {1, -1});
  runner.SetUpInPlace();
  EXPECT_EQ(runner.Output(), (Array{1, 2}));
  runner.Backward({3, 3});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{3, -6}));
}

}  // namespace
}  // namespace millrace::test
