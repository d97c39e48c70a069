#include "test/nn/layer_runner.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

// Index in a row-major array of `shape` of the value at `place`.
int64_t IndexOf(const Shape& shape, const Shape& place) {
  int64_t index = 0;
  for (size_t i = 0; i < shape.size(); ++i) index = index * shape[i] + place[i];
  return index;
}

// Calls visit(index in part k, index in the whole) for all values of part k.
template <typename Visit>
void ForEachValue(const std::vector<Shape>& parts, size_t k, int axis, Visit visit) {
  Shape whole = parts[0];
  whole[axis] = 0;
  int64_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i < k) begin += parts[i][axis];
    whole[axis] += parts[i][axis];
  }
  for (int64_t i = 0; i < ShapeCount(parts[k]); ++i) {
    Shape place(whole.size());
    for (int64_t axis = std::ssize(place) - 1, rest = i; axis >= 0; --axis) {
      place[axis] = rest % parts[k][axis];
      rest /= parts[k][axis];
    }
    place[axis] += begin;
    visit(i, IndexOf(whole, place));
  }
}

void ExpectJoined(const std::string& param, const std::vector<Shape>& parts, int axis,
                  const std::vector<Layout>& orders, Rng* rng) {
  LayerRunner runner("type: 'Concat' concat_param { " + param + " }");
  std::vector<Array> values;
  int64_t count = 0, size = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    values.push_back(Uniform(ShapeCount(parts[k]), -1, 1, rng));
    runner.AddBottom(parts[k], values[k], orders[k]);
    count += ShapeCount(parts[k]);
    size += parts[k][axis];
  }
  runner.SetUp();
  Shape whole = parts[0];
  whole[axis] = size;
  ASSERT_EQ(runner.top().shape(), whole);
  Array expected(count);
  for (size_t k = 0; k < parts.size(); ++k) {
    ForEachValue(parts, k, axis, [&](int64_t i, int64_t at) { expected[at] = values[k][i]; });
  }
  EXPECT_EQ(runner.Output(), expected);
  const Array diff = Uniform(count, -1, 1, rng);
  runner.Backward(diff);
  for (size_t k = 0; k < parts.size(); ++k) {
    Array part(values[k].size());
    ForEachValue(parts, k, axis, [&](int64_t i, int64_t at) { part[i] = diff[at]; });
    EXPECT_EQ(GetDiff(runner.bottom(static_cast<int>(k))), part);
  }
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(ConcatLayer, JoinsBlobsAlongAnyAxis) {
  Rng rng(Seed(), {1});
  for (int axis = 0; axis < 4; ++axis) {
    SCOPED_TRACE(axis);
    std::vector<Shape> parts(3, Shape{2, 3, 4, 5});
    parts[1][axis] = 1, parts[2][axis] = 7;
    const std::vector<Layout> plain(3, Layout::kPlain);
    ExpectJoined(StrCat("axis: ", axis), parts, axis, plain, &rng);
    ExpectJoined(StrCat("axis: ", axis - 4), parts, axis, plain, &rng);
    ExpectJoined(StrCat("concat_dim: ", axis), parts, axis, plain, &rng);
  }
  ExpectJoined("", {{4, 2}, {4, 9}}, 1, {Layout::kPlain, Layout::kPlain}, &rng);
  ExpectJoined("axis: 0", {{4}, {5}, {1}}, 0, std::vector<Layout>(3, Layout::kPlain), &rng);
  ExpectJoined("axis: 3", {{2, 1, 2, 3, 2, 1, 2}, {2, 1, 2, 5, 2, 1, 2}}, 3,
               {Layout::kPlain, Layout::kPlain}, &rng);
  ExpectJoined("", {{3, 4}}, 1, {Layout::kPlain}, &rng);
}

TEST(ConcatLayer, KeepsAMemoryOrderThatAllBottomsHave) {
  Rng rng(Seed(), {2});
  const std::vector<Shape> parts = {{2, 16, 3, 5}, {2, 32, 3, 5}, {2, 16, 3, 5}};
  for (const Layout order : kLayouts) {
    SCOPED_TRACE(LayoutName(order));
    ExpectJoined("", parts, 1, std::vector<Layout>(3, order), &rng);
    LayerRunner runner("type: 'Concat'");
    for (const Shape& shape : parts) runner.AddBottom(shape, Array(ShapeCount(shape)), order);
    runner.SetUp();
    EXPECT_EQ(runner.top().layout(), order);
  }
}

TEST(ConcatLayer, ConvertsBottomsOfDifferentMemoryOrders) {
  Rng rng(Seed(), {3});
  ExpectJoined("", {{2, 16, 3, 5}, {2, 5, 3, 5}, {2, 8, 3, 5}, {2, 16, 3, 5}}, 1,
               {Layout::kBlocked16, Layout::kNhwc, Layout::kBlocked8, Layout::kPlain}, &rng);
  ExpectJoined("axis: 2", {{2, 16, 3, 5}, {2, 16, 1, 5}}, 2, {Layout::kBlocked8, Layout::kNhwc},
               &rng);
}

TEST(ConcatLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Concat' concat_param { axis: 0 }");
  runner.AddBottom({1, 2}, {1, 2});
  runner.AddBottom({1, 2}, {3, 4});
  runner.SetUp();
  runner.Reshape({2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(runner.top().shape(), (Shape{3, 2}));
  EXPECT_EQ(runner.Output(), (Array{5, 6, 7, 8, 3, 4}));
}

TEST(ConcatLayer, WritesOnlyTheGradientsThatAreAskedFor) {
  LayerRunner runner("type: 'Concat'");
  runner.AddBottom({1, 2}, {1, 2});
  runner.AddBottom({1, 1}, {3});
  runner.SetUp();
  runner.Forward();
  SetDiff({9, 9}, &runner.bottom(0));
  SetDiff({4, 5, 6}, &runner.top());
  runner.layer().Backward(runner.tops(), {false, true}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom(0)), (Array{9, 9}));
  EXPECT_EQ(GetDiff(runner.bottom(1)), (Array{6}));
}

TEST(ConcatLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& second) {
    LayerRunner runner("type: 'Concat' concat_param { " + param + " }");
    runner.AddBottom({2, 3}, Array(6));
    runner.AddBottom(second, Array(ShapeCount(second)));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("axis: 1 concat_dim: 1", {2, 3}), "expected one of them");
  EXPECT_CONTAINS(complaint("axis: 2", {2, 3}), "2 given, but the bottom has 2 axes");
  EXPECT_CONTAINS(complaint("axis: -3", {2, 3}), "-3 given");
  EXPECT_CONTAINS(complaint("concat_dim: 4294967295", {2, 3}), "4294967295 given");
  EXPECT_CONTAINS(complaint("", {3, 3}), "expected that of bottom[0]");
  EXPECT_CONTAINS(complaint("", {2, 3, 1}), "expected that of bottom[0]");
}

}  // namespace
}  // namespace millrace::test
