#include <algorithm>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

void ExpectReversed(const std::string& param, const Shape& shape, const std::vector<int>& axes,
                    Rng* rng) {
  SCOPED_TRACE(param);
  const int64_t count = ShapeCount(shape);
  const Array x = Uniform(count, -1, 1, rng), dy = Uniform(count, -1, 1, rng);
  LayerRunner runner("type: 'Reverse' reverse_param { " + param + " }");
  runner.AddBottom(shape, x);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), shape);
  Array y(count), dx(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0, step = 1, rest = i;
    for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
      const int64_t place = rest % shape[axis];
      rest /= shape[axis];
      const bool turned = std::count(axes.begin(), axes.end(), axis) > 0;
      from += (turned ? shape[axis] - 1 - place : place) * step;
      step *= shape[axis];
    }
    y[i] = x[from];
    dx[from] = dy[i];
  }
  EXPECT_EQ(runner.Output(), y);
  runner.Backward(dy);
  EXPECT_EQ(GetDiff(runner.bottom()), dx);
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(ReverseLayer, TurnsItsAxesAround) {
  Rng rng(Seed(), {1});
  ExpectReversed("", {3, 2, 4}, {0}, &rng);
  ExpectReversed("axis: 1", {3, 5, 2, 2}, {1}, &rng);
  ExpectReversed("axis: -1", {3, 70}, {1}, &rng);
  ExpectReversed("axis: 3 axis: 2", {2, 3, 4, 5}, {2, 3}, &rng);
  ExpectReversed("axis: 0 axis: 2", {2, 3, 4, 5}, {0, 2}, &rng);
  ExpectReversed("axis: 0 axis: 1 axis: 2", {2, 3, 4}, {0, 1, 2}, &rng);
  ExpectReversed("axis: 0", {1, 1}, {0}, &rng);
}

TEST(ReverseLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Reverse' reverse_param { axis: 1 }");
  runner.AddBottom({1, 2}, {1, 2});
  runner.SetUp();
  EXPECT_EQ(runner.Output(), (Array{2, 1}));
  runner.Reshape({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(runner.Output(), (Array{3, 2, 1, 6, 5, 4}));
}

TEST(ReverseLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'Reverse' reverse_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("axis: 2"), "2 is not an axis");
  EXPECT_CONTAINS(complaint("axis: 1 axis: -1"), "-1 given twice, expected once");
}

}  // namespace
}  // namespace millrace::test
