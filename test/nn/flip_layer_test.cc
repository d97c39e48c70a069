#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

// Compares the layer with loops over (N, C, H, W).
void ExpectFlipped(const std::string& param, const Shape& shape, bool height, bool width,
                   Rng* rng) {
  SCOPED_TRACE(param);
  const int64_t count = ShapeCount(shape);
  const int64_t rows = shape[2], columns = shape[3];
  const Array x = Uniform(count, -1, 1, rng), dy = Uniform(count, -1, 1, rng);
  LayerRunner runner("type: 'Flip' " + param);
  runner.AddBottom(shape, x);
  runner.SetUp();
  ASSERT_EQ(runner.top().shape(), shape);
  Array y(count), dx(count);
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
    for (int64_t h = 0; h < rows; ++h) {
      for (int64_t w = 0; w < columns; ++w) {
        const int64_t to = (plane * rows + h) * columns + w;
        const int64_t from =
            (plane * rows + (height ? rows - 1 - h : h)) * columns + (width ? columns - 1 - w : w);
        y[to] = x[from];
        dx[from] = dy[to];
      }
    }
  }
  EXPECT_EQ(runner.Output(), y);
  runner.Backward(dy);
  EXPECT_EQ(GetDiff(runner.bottom()), dx);
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(FlipLayer, MirrorsWidthAndHeight) {
  Rng rng(Seed(), {1});
  ExpectFlipped("", {2, 3, 4, 5}, false, true, &rng);
  ExpectFlipped("flip_param { flip_height: true }", {2, 3, 4, 5}, true, true, &rng);
  ExpectFlipped("flip_param { flip_width: false flip_height: true }", {2, 3, 5, 4}, true, false,
                &rng);
  ExpectFlipped("flip_param { flip_width: false }", {2, 3, 4, 5}, false, false, &rng);
}

TEST(FlipLayer, TakesAxesThatABlobLacksAsOfSizeOne) {
  const auto output = [](const Shape& shape, const Array& x) {
    LayerRunner runner("type: 'Flip' flip_param { flip_height: true }");
    runner.AddBottom(shape, x);
    runner.SetUp();
    return runner.Output();
  };
  EXPECT_EQ(output({2, 3}, {1, 2, 3, 4, 5, 6}), (Array{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(output({1, 2, 3}, {1, 2, 3, 4, 5, 6}), (Array{3, 2, 1, 6, 5, 4}));
}

TEST(FlipLayer, RefusesMoreThanFourAxes) {
  LayerRunner runner("type: 'Flip'");
  runner.AddBottom({1, 2, 3, 1, 1}, Array(6));
  EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "5 axes, expected at most 4");
}

}  // namespace
}  // namespace millrace::test
