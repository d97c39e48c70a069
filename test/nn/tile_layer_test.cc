#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(TileLayer, RepeatsTheBottomAlongAnAxis) {
  Rng rng(Seed(), {1});
  const Shape shape = {2, 3, 2, 5};
  for (int axis = 0; axis < 4; ++axis) {
    for (int tiles : {1, 2, 3}) {
      const Array x = Uniform(60, -1, 1, &rng);
      LayerRunner runner(StrCat("type: 'Tile' tile_param { axis: ", axis % 2 ? axis - 4 : axis,
                                " tiles: ", tiles, " }"));
      runner.AddBottom(shape, x);
      runner.SetUp();
      Shape expected = shape;
      expected[axis] *= tiles;
      ASSERT_EQ(runner.top().shape(), expected);
      const Array dy = Uniform(60 * tiles, -1, 1, &rng);
      Array y, dx(60, 0.0);
      const int64_t block = ShapeCount(Shape(shape.begin() + axis, shape.end()));
      for (int64_t begin = 0; begin < 60; begin += block) {
        for (int t = 0; t < tiles; ++t) {
          for (int64_t i = 0; i < block; ++i) {
            dx[begin + i] += dy[y.size()];
            y.push_back(x[begin + i]);
          }
        }
      }
      EXPECT_EQ(runner.Output(), y);
      runner.Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner.bottom())), "");
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(TileLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Tile' tile_param { tiles: 2 }");
  runner.AddBottom({1, 1}, {1});
  runner.SetUp();
  runner.Reshape({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(runner.Output(), (Array{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST(TileLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'Tile' tile_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint(""), "missing");
  EXPECT_CONTAINS(complaint("tiles: 0"), "expected a positive number");
  EXPECT_CONTAINS(complaint("tiles: -1"), "expected a positive number");
  EXPECT_CONTAINS(complaint("tiles: 2147483647"), "more than");
  EXPECT_CONTAINS(complaint("tiles: 2 axis: 2"), "the bottom has 2 axes");
}

}  // namespace
}  // namespace millrace::test
