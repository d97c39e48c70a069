// The layers that reorder axes and channels: Permute and ShuffleChannel.
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

void ExpectPermuted(const Shape& shape, const std::vector<int>& given, std::vector<int> order,
                    Rng* rng) {
  std::string text = "type: 'Permute' permute_param {";
  for (int axis : given) text += StrCat(" order: ", axis);
  SCOPED_TRACE(text);
  const int64_t count = ShapeCount(shape);
  const Array x = Uniform(count, -1, 1, rng), dy = Uniform(count, -1, 1, rng);
  LayerRunner runner(text + " }");
  runner.AddBottom(shape, x);
  runner.SetUp();
  Shape expected;
  for (int axis : order) expected.push_back(shape[axis]);
  ASSERT_EQ(runner.top().shape(), expected);
  Array y(count), dx(count);
  for (int64_t i = 0; i < count; ++i) {
    Shape place(shape.size());
    for (int64_t k = std::ssize(order) - 1, rest = i; k >= 0; --k) {
      place[order[k]] = rest % expected[k];
      rest /= expected[k];
    }
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) from = from * shape[axis] + place[axis];
    y[i] = x[from];
    dx[from] = dy[i];
  }
  EXPECT_EQ(runner.Output(), y);
  runner.Backward(dy);
  EXPECT_EQ(GetDiff(runner.bottom()), dx);
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(PermuteLayer, PermutesTheAxes) {
  Rng rng(Seed(), {1});
  ExpectPermuted({2, 3, 4, 5}, {0, 2, 3, 1}, {0, 2, 3, 1}, &rng);  // as SSD has it
  ExpectPermuted({2, 3, 4, 5}, {3, 2, 1, 0}, {3, 2, 1, 0}, &rng);
  ExpectPermuted({2, 3, 4, 5}, {2}, {2, 0, 1, 3}, &rng);
  ExpectPermuted({2, 3, 4, 5}, {}, {0, 1, 2, 3}, &rng);
  ExpectPermuted({4, 5}, {1, 0}, {1, 0}, &rng);
  ExpectPermuted({2, 3, 1, 2, 3, 2}, {5, 0, 3, 1, 4, 2}, {5, 0, 3, 1, 4, 2}, &rng);
  ExpectPermuted({2, 2, 2, 2, 2, 2, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}, {7, 6, 5, 4, 3, 2, 1, 0},
                 &rng);
}

TEST(PermuteLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Permute' permute_param { order: 1 order: 0 }");
  runner.AddBottom({1, 2}, {1, 2});
  runner.SetUp();
  runner.Reshape({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(runner.Output(), (Array{1, 4, 2, 5, 3, 6}));
}

TEST(PermuteLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape = {2, 3}) {
    LayerRunner runner("type: 'Permute' permute_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("order: 2"), "the bottom has 2 axes");
  EXPECT_CONTAINS(complaint("order: 1 order: 1"), "1 given twice");
  EXPECT_CONTAINS(complaint("order: 8 order: 7 order: 6 order: 5 order: 4 order: 3 order: 2 "
                            "order: 1 order: 0",
                            Shape(9, 2)),
                  "more than 8 axes");
}

TEST(ShuffleChannelLayer, MixesTheChannelsOfTheGroups) {
  Rng rng(Seed(), {2});
  const int64_t n = 2, c = 12, plane = 6;
  for (const int64_t group : {1, 2, 3, 4, 6, 12}) {
    const Array x = Uniform(n * c * plane, -1, 1, &rng), dy = Uniform(n * c * plane, -1, 1, &rng);
    LayerRunner runner(
        StrCat("type: 'ShuffleChannel' shuffle_channel_param { group: ", group, " }"));
    runner.AddBottom({n, c, 2, 3}, x);
    runner.SetUp();
    ASSERT_EQ(runner.top().shape(), (Shape{n, c, 2, 3}));
    Array y(x.size()), dx(x.size());
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < c; ++k) {
        const int64_t to = k % (c / group) * group + k / (c / group);
        for (int64_t p = 0; p < plane; ++p) {
          y[(i * c + to) * plane + p] = x[(i * c + k) * plane + p];
          dx[(i * c + k) * plane + p] = dy[(i * c + to) * plane + p];
        }
      }
    }
    EXPECT_EQ(runner.Output(), y);
    runner.Backward(dy);
    EXPECT_EQ(GetDiff(runner.bottom()), dx);
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(ShuffleChannelLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape) {
    LayerRunner runner("type: 'ShuffleChannel' shuffle_channel_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("group: 0", {1, 4}), "expected a divisor");
  EXPECT_CONTAINS(complaint("group: 3", {1, 4}), "expected a divisor");
  EXPECT_CONTAINS(complaint("", {4}), "expected at least 2");
}

}  // namespace
}  // namespace millrace::test
