#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string InnerDistanceText(const std::string& param) {
  return "name: 'dist' type: 'InnerDistance' inner_distance_param { " + param + " }";
}

double Term(bool squares, double d) { return squares ? d * d : std::fabs(d); }
double Slope(bool squares, double d) { return squares ? 2 * d : (d > 0) - (d < 0); }

Array Distances(bool squares, size_t features, const Array& x, const Array& centers) {
  Array distances;
  for (size_t m = 0; m < x.size() / features; ++m) {
    for (size_t n = 0; n < centers.size() / features; ++n) {
      double sum = 0;
      for (size_t k = 0; k < features; ++k) {
        sum += Term(squares, x[m * features + k] - centers[n * features + k]);
      }
      distances.push_back(sum);
    }
  }
  return distances;
}

// The gradient by the centers, of examples with their labels alone unless `labels` is empty.
Array CenterDiff(bool squares, size_t features, const Array& x, const Array& centers,
                 const Array& top_diff, const Array& labels) {
  const size_t rows = x.size() / features, count = centers.size() / features;
  Array diff(centers.size(), 0.0);
  for (size_t m = 0; m < rows; ++m) {
    for (size_t n = 0; n < count; ++n) {
      if (!labels.empty() && labels[m] != static_cast<double>(n)) continue;
      for (size_t k = 0; k < features; ++k) {
        diff[n * features + k] += top_diff[m * count + n] *
                                  Slope(squares, centers[n * features + k] - x[m * features + k]);
      }
    }
  }
  return diff;
}

Array UnitRowsOf(Array rows, size_t features) {
  for (size_t n = 0; n < rows.size() / features; ++n) {
    double sum = 0;
    for (size_t k = 0; k < features; ++k) sum += rows[n * features + k] * rows[n * features + k];
    for (size_t k = 0; k < features; ++k) rows[n * features + k] /= std::sqrt(sum);
  }
  return rows;
}

std::string Type(bool squares) { return squares ? "distance_type: 'L2'" : "distance_type: 'L1'"; }

TEST(InnerDistanceLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const bool squares : {true, false}) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(StrCat(squares, normalize));
      const Array x = Uniform(7 * 6, -1, 1, &rng), centers = Uniform(4 * 6, -1, 1, &rng);
      const auto runner = RunnerOf(InnerDistanceText(StrCat("num_output: 4 ", Type(squares),
                                                            normalize ? " normalize: true" : "")),
                                   {{{7, 2, 3}, x}});
      ASSERT_EQ(runner->layer().params().size(), 1u);
      ASSERT_EQ(runner->param(0).shape(), (Shape{4, 6}));
      SetData(centers, &runner->param(0));
      ASSERT_EQ(runner->top().shape(), (Shape{7, 4}));
      EXPECT_EQ(Diff(Distances(squares, 6, x, normalize ? UnitRowsOf(centers, 6) : centers),
                     runner->Output(), 1e-5),
                "");
      EXPECT_EQ(Diff(centers, GetData(runner->param(0)), 1e-6), "");  // passes do not write
    }
  }
}

TEST(InnerDistanceLayer, SquaresAreTheDefault) {
  const auto runner = RunnerOf(InnerDistanceText("num_output: 1"), {{{1, 2}, {3, 4}}});
  SetData({1, 1}, &runner->param(0));
  EXPECT_EQ(runner->Output(), Array{13});
}

TEST(InnerDistanceLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const bool squares : {true, false}) {
    for (const std::string more : {"", " normalize: true"}) {
      SCOPED_TRACE(Type(squares) + more);
      // The examples and the centers are apart in each feature, as |d| has a corner at 0.
      const Array x = Uniform(4 * 3, 2, 4, &rng);
      const auto runner =
          RunnerOf(InnerDistanceText("num_output: 3 " + Type(squares) + more), {{{4, 3}, x}});
      SetData(Uniform(3 * 3, -1.5, -0.5, &rng), &runner->param(0));
      EXPECT_EQ(runner->CheckGradients(), "");
    }
  }
}

TEST(InnerDistanceLayer, TakesCentersFromABottom) {
  Rng rng(Seed(), {3});
  for (const bool squares : {true, false}) {
    const Array x = Uniform(4 * 3, 1, 2, &rng), centers = Uniform(5 * 3, -2, -1, &rng);
    const auto runner = RunnerOf(InnerDistanceText(Type(squares) + " normalize: true"),
                                 {{{4, 3}, x}, {{5, 3, 1}, centers}});
    EXPECT_TRUE(runner->layer().params().empty());
    EXPECT_EQ(Diff(Distances(squares, 3, x, centers), runner->Output(), 1e-5), "");
    EXPECT_TRUE(runner->layer().AllowBackward(1));
    EXPECT_EQ(runner->CheckGradients(), "");
  }
}

TEST(InnerDistanceLayer, UpdatesTheCentersOfLabelsOnly) {
  Rng rng(Seed(), {4});
  for (const bool squares : {true, false}) {
    for (const bool from_bottom : {false, true}) {
      SCOPED_TRACE(StrCat(squares, from_bottom));
      const Array x = Uniform(6 * 3, -1, 1, &rng), centers = Uniform(4 * 3, -1, 1, &rng);
      const Array labels = RandomClasses(6, 4, &rng), dy = Uniform(6 * 4, -1, 1, &rng);
      std::vector<Bottom> bottoms = {{{6, 3}, x}, {{6}, labels}};
      if (from_bottom) bottoms.insert(bottoms.begin() + 1, {{4, 3}, centers});
      const auto runner = RunnerOf(
          InnerDistanceText("num_output: 4 update_center_only: true " + Type(squares)), bottoms);
      if (!from_bottom) SetData(centers, &runner->param(0));
      EXPECT_EQ(runner->layer().AllowBackward(1), from_bottom);
      EXPECT_FALSE(runner->layer().AllowBackward(2));
      EXPECT_EQ(Diff(Distances(squares, 3, x, centers), runner->Output(), 1e-5), "");
      runner->Backward(dy);
      const Array want = CenterDiff(squares, 3, x, centers, dy, labels);
      EXPECT_EQ(Diff(want, GetDiff(from_bottom ? runner->bottom(1) : runner->param(0)), 1e-5), "");
      // The gradient of the examples is that of all distances: with roles exchanged, the same.
      Array transposed(dy.size());
      for (size_t m = 0; m < 6; ++m) {
        for (size_t n = 0; n < 4; ++n) transposed[n * 6 + m] = dy[m * 4 + n];
      }
      EXPECT_EQ(
          Diff(CenterDiff(squares, 3, centers, x, transposed, {}), GetDiff(runner->bottom()), 1e-5),
          "");
    }
  }
}

TEST(InnerDistanceLayer, AddsToAGradientThatIsThere) {
  for (const std::string more : {"", " normalize: true", " update_center_only: true"}) {
    std::vector<Bottom> bottoms = {{{2, 2}, {1, 2, 3, 5}}};
    if (more == " update_center_only: true") bottoms.push_back({{2}, {0, 0}});
    const auto runner = RunnerOf(InnerDistanceText("num_output: 1" + more), bottoms);
    SetData({1, 1}, &runner->param(0));
    runner->Forward();
    runner->Backward({1, 1});
    const Array once = GetDiff(runner->param(0));
    *runner->layer().params()[0].has_gradient = true;
    runner->Backward({1, 1});
    EXPECT_EQ(Diff(Scaled(once, 2), GetDiff(runner->param(0)), 1e-6), "") << more;
  }
}

TEST(InnerDistanceLayer, BearsCentersOfZeros) {
  const auto runner =
      RunnerOf(InnerDistanceText("num_output: 1 normalize: true"), {{{1, 2}, {3, 4}}});
  SetData({0, 0}, &runner->param(0));
  EXPECT_EQ(runner->Output(), Array{25});
}

TEST(InnerDistanceLayer, FollowsBottomsOfAnotherShape) {
  const auto runner =
      RunnerOf(InnerDistanceText("num_output: 2 axis: 2"), {{{1, 2, 1, 1}, {1, 2}}});
  EXPECT_EQ(runner->top().shape(), (Shape{1, 2, 2}));
  SetData({1, -3}, &runner->param(0));
  runner->Reshape({3, 1, 1}, {5, 0, 1});
  EXPECT_EQ(runner->Output(), (Array{16, 64, 1, 9, 0, 16}));
}

TEST(InnerDistanceLayer, NamesALabelThatIsNoClass) {
  const auto runner = RunnerOf(InnerDistanceText("num_output: 2 update_center_only: true"),
                               {{{2, 1}, {1, 1}}, {{2}, {1, 2}}});
  EXPECT_EQ(LabelError(runner.get()),
            "layer 'dist': label 2 at position 1 of the batch is not one of the 2 classes 0 to 1");
}

TEST(InnerDistanceLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const std::vector<Shape>& shapes = {{2, 3}}) {
    return SetUpError(InnerDistanceText(param), shapes);
  };
  EXPECT_CONTAINS(complaint(""), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_output: 2 distance_type: 'cosine'"),
                  "'cosine' given, expected L2 or L1");
  EXPECT_CONTAINS(complaint("num_output: 2 transpose: true"), "true given, expected false");
  EXPECT_CONTAINS(complaint("num_output: 2 axis: 2"), "2 is not an axis");
  EXPECT_CONTAINS(complaint("num_output: 2 weight_filler { type: 'x' }"), "there is no filler 'x'");
  EXPECT_CONTAINS(complaint("", {{2, 3}, {4, 2}}), "expected 3 values per center");
  EXPECT_CONTAINS(complaint("num_output: 2 update_center_only: true", {{2, 3}, {3}}),
                  "has shape 3 (3), expected 2 labels: one for each row of bottom[0]");
}

}  // namespace
}  // namespace millrace::test
