#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

// The parts of a {outer, axis, inner} array that begin at `begins`.
std::vector<Array> Parts(const Array& whole, int64_t outer, int64_t size, int64_t inner,
                         std::vector<int64_t> begins) {
  begins.push_back(size);
  std::vector<Array> parts(begins.size() - 1);
  for (size_t k = 0; k < parts.size(); ++k) {
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t a = begins[k]; a < begins[k + 1]; ++a) {
        for (int64_t i = 0; i < inner; ++i) {
          parts[k].push_back(whole[(o * size + a) * inner + i]);
        }
      }
    }
  }
  return parts;
}

void ExpectSliced(const std::string& param, const Shape& shape, int axis,
                  const std::vector<int64_t>& begins, Layout order, Rng* rng) {
  SCOPED_TRACE(StrCat(param, ", ", ShapeText(shape), " ", LayoutName(order)));
  const int64_t count = ShapeCount(shape), size = shape[axis];
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t outer = count / size / inner;
  const Array values = Uniform(count, -1, 1, rng), diffs = Uniform(count, -1, 1, rng);
  const std::vector<Array> expected = Parts(values, outer, size, inner, begins);
  const std::vector<Array> top_diffs = Parts(diffs, outer, size, inner, begins);
  LayerRunner runner("type: 'Slice' slice_param { " + param + " }");
  runner.AddBottom(shape, values, order);
  const int tops = static_cast<int>(begins.size());
  runner.SetUp(tops);
  runner.Forward();
  for (int k = 0; k < tops; ++k) {
    Shape part = shape;
    part[axis] = std::ssize(expected[k]) / outer / inner;
    ASSERT_EQ(runner.top(k).shape(), part);
    EXPECT_EQ(GetData(runner.top(k)), expected[k]);
    SetDiff(top_diffs[k], &runner.top(k));
  }
  runner.layer().Backward(runner.tops(), {true}, runner.bottoms());
  EXPECT_EQ(GetDiff(runner.bottom()), diffs);
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(SliceLayer, DividesAtThePointsOrEvenly) {
  Rng rng(Seed(), {1});
  const Layout plain = Layout::kPlain;
  ExpectSliced("", {2, 6, 2, 3}, 1, {0, 2, 4}, plain, &rng);
  ExpectSliced("slice_point: 1 slice_point: 4", {2, 6, 2, 3}, 1, {0, 1, 4}, plain, &rng);
  ExpectSliced("axis: 0", {4, 5}, 0, {0, 1, 2, 3}, plain, &rng);
  ExpectSliced("axis: -1 slice_point: 2", {4, 5}, 1, {0, 2}, plain, &rng);
  ExpectSliced("slice_dim: 2", {1, 2, 4, 3}, 2, {0, 2}, plain, &rng);
  ExpectSliced("axis: 4 slice_point: 3", {2, 1, 2, 1, 4, 2, 1, 2}, 4, {0, 3}, plain, &rng);
  ExpectSliced("", {3, 4}, 1, {0}, plain, &rng);
  ExpectSliced("slice_point: 5", {2, 5, 3}, 1, {0, 5}, plain, &rng);  // the last one is empty
  ExpectSliced("slice_point: 2 slice_point: 6", {2, 6, 2, 3}, 1, {0, 2, 6}, plain, &rng);
}

TEST(SliceLayer, AcceptsEveryMemoryOrder) {
  Rng rng(Seed(), {2});
  for (const Layout order : kLayouts) {
    ExpectSliced("slice_point: 16", {2, 48, 2, 3}, 1, {0, 16}, order, &rng);
    ExpectSliced("slice_point: 5", {2, 48, 2, 3}, 1, {0, 5}, order, &rng);  // fits no block
    ExpectSliced("axis: 2", {2, 16, 4, 3}, 2, {0, 2}, order, &rng);
  }
}

TEST(SliceLayer, KeepsTheMemoryOrderIfItFitsAllTops) {
  const auto order_of = [](const std::string& param, Layout order) {
    LayerRunner runner("type: 'Slice' slice_param { " + param + " }");
    runner.AddBottom({2, 32, 2, 3}, Array(2 * 32 * 6), order);
    runner.SetUp(2);
    EXPECT_EQ(runner.top(0).layout(), runner.top(1).layout());
    return runner.top(0).layout();
  };
  EXPECT_EQ(order_of("slice_point: 16", Layout::kBlocked16), Layout::kBlocked16);
  EXPECT_EQ(order_of("slice_point: 8", Layout::kBlocked8), Layout::kBlocked8);
  EXPECT_EQ(order_of("slice_point: 8", Layout::kBlocked16), Layout::kPlain);
  EXPECT_EQ(order_of("slice_point: 3", Layout::kNhwc), Layout::kNhwc);
}

TEST(SliceLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Slice'");
  runner.AddBottom({1, 2}, {1, 2});
  runner.SetUp(2);
  runner.Reshape({1, 4}, {5, 6, 7, 8});
  runner.Forward();
  EXPECT_EQ(GetData(runner.top(1)), (Array{7, 8}));
}

TEST(SliceLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, int tops) {
    LayerRunner runner("type: 'Slice' slice_param { " + param + " }");
    runner.AddBottom({2, 5}, Array(10));
    return ErrorOf([&] { runner.SetUp(tops); });
  };
  EXPECT_CONTAINS(complaint("", 2), "give slice_point");
  EXPECT_CONTAINS(complaint("slice_point: 1", 3), "expected 2, one less than tops");
  EXPECT_CONTAINS(complaint("slice_point: 3 slice_point: 3", 3), "expected a number above 3");
  EXPECT_CONTAINS(complaint("slice_point: 6", 2), "up to 5");
  EXPECT_CONTAINS(complaint("slice_point: 0", 2), "above 0");
  EXPECT_CONTAINS(complaint("axis: 2", 1), "the bottom has 2 axes");
  EXPECT_CONTAINS(complaint("axis: 1 slice_dim: 1", 1), "expected one of them");
}

}  // namespace
}  // namespace millrace::test
