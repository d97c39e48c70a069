#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

void ExpectCropped(const std::string& param, const Shape& from, const Shape& size,
                   const Shape& offset, Rng* rng) {
  SCOPED_TRACE(param);
  const Array x = Uniform(ShapeCount(from), -1, 1, rng);
  LayerRunner runner("type: 'Crop' crop_param { " + param + " }");
  runner.AddBottom(from, x);
  runner.AddBottom(size, Array(ShapeCount(size)));
  runner.SetUp();
  Shape shape = from;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (offset[i] >= 0) shape[i] = size[i];
  }
  ASSERT_EQ(runner.top().shape(), shape);
  const Array dy = Uniform(ShapeCount(shape), -1, 1, rng);
  Array y(dy.size()), dx(x.size(), 0.0);
  for (size_t i = 0; i < y.size(); ++i) {
    int64_t at = 0, step = 1;
    for (int64_t axis = std::ssize(shape) - 1, rest = static_cast<int64_t>(i); axis >= 0; --axis) {
      at += (rest % shape[axis] + std::max<int64_t>(offset[axis], 0)) * step;
      rest /= shape[axis];
      step *= from[axis];
    }
    y[i] = x[at];
    dx[at] = dy[i];
  }
  EXPECT_EQ(runner.Output(), y);
  runner.Backward(dy);
  EXPECT_EQ(GetDiff(runner.bottom(0)), dx);
  EXPECT_EQ(runner.CheckGradients(), "");
}

// -1: an axis that is not cropped.
TEST(CropLayer, CutsABlockOutOfTheFirstBottom) {
  Rng rng(Seed(), {1});
  ExpectCropped("", {2, 3, 6, 7}, {2, 9, 4, 5}, {-1, -1, 0, 0}, &rng);
  ExpectCropped("offset: 2", {2, 3, 6, 7}, {2, 9, 4, 5}, {-1, -1, 2, 2}, &rng);
  ExpectCropped("offset: 1 offset: 2", {2, 3, 6, 7}, {2, 9, 4, 5}, {-1, -1, 1, 2}, &rng);
  ExpectCropped("axis: 1 offset: 1 offset: 0 offset: 2", {2, 3, 6, 7}, {5, 2, 6, 5}, {-1, 1, 0, 2},
                &rng);
  ExpectCropped("axis: -1 offset: 3", {2, 3, 6, 7}, {1, 1, 1, 4}, {-1, -1, -1, 3}, &rng);
  ExpectCropped("axis: 0 offset: 1", {3, 4}, {2, 3}, {1, 1}, &rng);
  ExpectCropped("axis: 2", {2, 3, 2, 3, 2, 3}, {2, 3, 1, 2, 1, 2}, {-1, -1, 0, 0, 0, 0}, &rng);
  ExpectCropped("", {1, 1, 3, 3}, {1, 1, 1, 1}, {-1, -1, 0, 0}, &rng);
  ExpectCropped("", {2, 3, 6, 7}, {2, 3, 6, 7}, {-1, -1, 0, 0}, &rng);
}

TEST(CropLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Crop' crop_param { axis: 0 offset: 1 }");
  runner.AddBottom({3}, {1, 2, 3});
  runner.AddBottom({2}, {0, 0});
  runner.SetUp();
  runner.Reshape({5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(runner.Output(), (Array{2, 3}));
  runner.Backward({7, 8});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{0, 7, 8, 0, 0}));
}

TEST(CropLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& size = {1, 1, 3, 3}) {
    LayerRunner runner("type: 'Crop' crop_param { " + param + " }");
    runner.AddBottom({1, 1, 4, 4}, Array(16));
    runner.AddBottom(size, Array(ShapeCount(size)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("axis: 4"), "the bottom has 4 axes");
  EXPECT_CONTAINS(complaint("offset: 1 offset: 1 offset: 1"), "expected one, or 2");
  EXPECT_CONTAINS(complaint("offset: 2"), "do not fit into axis 2");
  EXPECT_CONTAINS(complaint("", {1, 1, 5, 3}), "do not fit into axis 2");
  EXPECT_CONTAINS(complaint("", {3, 3}), "expected 4");
}

}  // namespace
}  // namespace millrace::test
