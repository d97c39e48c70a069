#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(AxpyLayer, ScalesChannelsAndAdds) {
  Rng rng(Seed(), {1});
  for (const Shape& factors : {Shape{2, 3}, Shape{2, 3, 1, 1}}) {
    const Array a = Uniform(6, -1, 1, &rng), x = Uniform(60, -1, 1, &rng);
    const Array y = Uniform(60, -1, 1, &rng), dtop = Uniform(60, -1, 1, &rng);
    LayerRunner runner("type: 'Axpy'");
    runner.AddBottom(factors, a);
    runner.AddBottom({2, 3, 2, 5}, x);
    runner.AddBottom({2, 3, 2, 5}, y);
    runner.SetUp();
    Array top, da(6, 0.0), dx;
    for (int i = 0; i < 60; ++i) {
      top.push_back(a[i / 10] * x[i] + y[i]);
      da[i / 10] += x[i] * dtop[i];
      dx.push_back(a[i / 10] * dtop[i]);
    }
    ASSERT_EQ(runner.top().shape(), (Shape{2, 3, 2, 5}));
    EXPECT_EQ(Diff(top, runner.Output(), 1e-6), "");
    runner.Backward(dtop);
    EXPECT_EQ(Diff(da, GetDiff(runner.bottom(0)), 1e-6), "");
    EXPECT_EQ(Diff(dx, GetDiff(runner.bottom(1)), 1e-6), "");
    EXPECT_EQ(GetDiff(runner.bottom(2)), dtop);
    EXPECT_EQ(runner.CheckGradients(), "");
    GradientCheck some;
    some.propagate_down = {false, true, false};
    EXPECT_EQ(runner.CheckGradients(some), "");
  }
}

TEST(AxpyLayer, FollowsBottomsOfAnotherSize) {
  LayerRunner runner("type: 'Axpy'");
  runner.AddBottom({1, 1}, {2});
  runner.AddBottom({1, 1, 1}, {3});
  runner.AddBottom({1, 1, 1}, {4});
  runner.SetUp();
  for (int i : {1, 2}) {
    runner.bottom(i).Reshape({1, 2, 2});
    SetData({1, 2, 3, 4}, &runner.bottom(i));
  }
  runner.Reshape({1, 2}, {10, 100});
  EXPECT_EQ(runner.Output(), (Array{11, 22, 303, 404}));
}

TEST(AxpyLayer, RefusesShapesThatDoNotFit) {
  const auto complaint = [](const Shape& a, const Shape& x, const Shape& y) {
    LayerRunner runner("type: 'Axpy'");
    for (const Shape& shape : {a, x, y}) runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint({2, 3}, {2}, {2}), "expected at least 2");
  EXPECT_CONTAINS(complaint({2, 4}, {2, 3, 5}, {2, 3, 5}), "one factor per channel");
  EXPECT_CONTAINS(complaint({2, 3, 2}, {2, 3, 5}, {2, 3, 5}), "one factor per channel");
  EXPECT_CONTAINS(complaint({2, 3}, {2, 3, 5}, {2, 3, 4}), "expected that of bottom[1]");
}

}  // namespace
}  // namespace millrace::test
