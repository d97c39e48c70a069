#include <algorithm>
#include <cmath>
#include <limits>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

// The indices of a row in the order of Caffe: descending values, then descending indices.
std::vector<int64_t> Ranked(const Array& row) {
  std::vector<int64_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a > b; });
  return order;
}

// Few different values, so that many are equal.
Array Values(int64_t count, Rng* rng) {
  Array x(count);
  for (double& value : x) value = static_cast<double>(rng->Below(5)) - 2;
  return x;
}

TEST(ArgMaxLayer, FindsTheLargestOfEachItem) {
  Rng rng(Seed(), {1});
  const Array x = Values(3 * 24, &rng);
  for (const bool values : {false, true}) {
    for (int top_k : {1, 5, 24}) {
      LayerRunner runner("type: 'ArgMax' argmax_param { top_k: " + StrCat(top_k) +
                         " out_max_val: " + (values ? "true" : "false") + " }");
      runner.AddBottom({3, 2, 3, 4}, x);
      runner.SetUp();
      ASSERT_EQ(runner.top().shape(), (Shape{3, values ? 2 : 1, top_k, 1}));
      Array expected;
      for (int64_t n = 0; n < 3; ++n) {
        const Array row(x.begin() + n * 24, x.begin() + (n + 1) * 24);
        const std::vector<int64_t> order = Ranked(row);
        for (int j = 0; j < top_k; ++j) expected.push_back(static_cast<double>(order[j]));
        for (int j = 0; j < top_k && values; ++j) expected.push_back(row[order[j]]);
      }
      EXPECT_EQ(runner.Output(), expected);
    }
  }
}

TEST(ArgMaxLayer, FindsTheLargestAlongAnAxis) {
  Rng rng(Seed(), {2});
  const Shape shape = {2, 5, 3, 4};
  const Array x = Values(120, &rng);
  for (int axis = 0; axis < 4; ++axis) {
    for (const bool values : {false, true}) {
      const int top_k = 2;
      LayerRunner runner(StrCat("type: 'ArgMax' argmax_param { top_k: 2 axis: ", axis - 4,
                                " out_max_val: ", values ? "true" : "false", " }"));
      runner.AddBottom(shape, x);
      runner.SetUp();
      Shape expected_shape = shape;
      expected_shape[axis] = top_k;
      ASSERT_EQ(runner.top().shape(), expected_shape);
      const int64_t length = shape[axis];
      const int64_t inner = ShapeCount(Shape(shape.begin() + axis + 1, shape.end()));
      Array expected(ShapeCount(expected_shape));
      for (int64_t outer = 0; outer < 120 / length / inner; ++outer) {
        for (int64_t i = 0; i < inner; ++i) {
          Array row;
          for (int64_t k = 0; k < length; ++k) row.push_back(x[(outer * length + k) * inner + i]);
          const std::vector<int64_t> order = Ranked(row);
          for (int64_t j = 0; j < top_k; ++j) {
            expected[(outer * top_k + j) * inner + i] =
                values ? row[order[j]] : static_cast<double>(order[j]);
          }
        }
      }
      EXPECT_EQ(runner.Output(), expected);
    }
  }
}

TEST(ArgMaxLayer, TakesInfinitiesAndPutsNanFirst) {
  const double infinity = std::numeric_limits<double>::infinity();
  LayerRunner runner("type: 'ArgMax' argmax_param { top_k: 4 }");
  runner.AddBottom({1, 4}, {-infinity, std::nan(""), 3, -infinity});
  runner.SetUp();
  EXPECT_EQ(runner.top().shape(), (Shape{1, 1, 4}));
  EXPECT_EQ(runner.Output(), (Array{1, 2, 3, 0}));
}

TEST(ArgMaxLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'ArgMax'");
  runner.AddBottom({1, 3}, {1, 2, 0});
  runner.SetUp();
  runner.Reshape({2, 4}, {1, 2, 3, 0, 9, 1, 1, 1});
  EXPECT_EQ(runner.Output(), (Array{2, 0}));
  EXPECT_FALSE(runner.layer().AllowBackward(0));
}

TEST(ArgMaxLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    LayerRunner runner("type: 'ArgMax' argmax_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("top_k: 0"), "expected 1 to 3");
  EXPECT_CONTAINS(complaint("top_k: 4"), "expected 1 to 3");
  EXPECT_CONTAINS(complaint("top_k: 3 axis: 0"), "expected 1 to 2");
  EXPECT_CONTAINS(complaint("axis: 2"), "the bottom has 2 axes");
}

}  // namespace
}  // namespace millrace::test
