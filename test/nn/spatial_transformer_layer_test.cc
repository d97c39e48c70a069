#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string Text(const std::string& param = "") {
  return "name: 'st' type: 'SpatialTransformer' st_param { " + param + " }";
}

// The weight of a pixel at a place.
double Hat(double place, int64_t pixel) {
  return std::max(0.0, 1 - std::abs(place - static_cast<double>(pixel)));
}

struct Sizes {
  int64_t images, channels, height, width, top_height, top_width;
};

// Calls use(top index, row, column) with the place in the bottom that each value of the top has, by
// the formulas of the paper with the coordinates of the forks. `theta`: 6 numbers per image.
template <typename Use>
void ForEachPlace(const Sizes& s, const Array& theta, Use use) {
  for (int64_t i = 0; i < s.images * s.channels * s.top_height * s.top_width; ++i) {
    const int64_t column = i % s.top_width, row = i / s.top_width % s.top_height;
    const int64_t plane = i / (s.top_width * s.top_height);
    const double* const t = &theta[plane / s.channels * 6];
    const double g = 2.0 * static_cast<double>(row) / static_cast<double>(s.top_height) - 1;
    const double h = 2.0 * static_cast<double>(column) / static_cast<double>(s.top_width) - 1;
    const double y = (t[0] * g + t[1] * h + t[2] + 1) / 2 * static_cast<double>(s.height);
    const double x = (t[3] * g + t[4] * h + t[5] + 1) / 2 * static_cast<double>(s.width);
    use(i, y, x);
  }
}

// Calls use(top index, bottom index, weight) for all pairs.
template <typename Use>
void ForEachPair(const Sizes& s, const Array& theta, Use use) {
  ForEachPlace(s, theta, [&](int64_t i, double y, double x) {
    const int64_t plane = i / (s.top_width * s.top_height);
    for (int64_t k = 0; k < s.height * s.width; ++k) {
      use(i, plane * s.height * s.width + k, Hat(y, k / s.width) * Hat(x, k % s.width));
    }
  });
}

// Matrices near the one that changes nothing, and some that turn, mirror, enlarge or leave the
// image.
Array Matrices(int64_t images, Rng* rng) {
  Array theta;
  for (int64_t n = 0; n < images; ++n) {
    const Array change = Uniform(6, -1, 1, rng);
    const double scale = n % 2 == 0 ? 0.3 : 1.1;
    const Array same = {1, 0, 0, 0, 1, 0};
    for (int i = 0; i < 6; ++i) {
      theta.push_back(static_cast<float>((n % 2 == 0 ? same[i] : 0) + scale * change[i]));
    }
  }
  return theta;
}

void ExpectSamples(const Sizes& s, const std::string& param, const Array& given, const Array& theta,
                   Rng* rng) {
  SCOPED_TRACE(param);
  const Array u = Uniform(s.images * s.channels * s.height * s.width, -1, 1, rng);
  const auto runner = RunnerOf(Text(param), {{{s.images, s.channels, s.height, s.width}, u},
                                             {{s.images, std::ssize(given) / s.images}, given}});
  ASSERT_EQ(runner->top().shape(), (Shape{s.images, s.channels, s.top_height, s.top_width}));
  const Array dy = Uniform(runner->top().count(), -1, 1, rng);
  Array y(dy.size(), 0.0), du(u.size(), 0.0);
  ForEachPair(s, theta, [&](int64_t to, int64_t from, double weight) {
    y[to] += weight * u[from];
    du[from] += weight * dy[to];
  });
  EXPECT_EQ(Diff(y, runner->Output(), 1e-4), "");
  runner->Backward(dy);
  EXPECT_EQ(Diff(du, GetDiff(runner->bottom(0)), 1e-4), "");
}

TEST(SpatialTransformerLayer, SamplesTheImage) {
  Rng rng(Seed(), {1});
  const Array theta = Matrices(4, &rng);
  ExpectSamples({4, 2, 6, 5, 6, 5}, "", theta, theta, &rng);
  ExpectSamples({4, 2, 6, 5, 3, 7}, "output_H: 3 output_W: 7", theta, theta, &rng);
  ExpectSamples({4, 1, 1, 9, 8, 9}, "output_H: 8", theta, theta, &rng);
}

TEST(SpatialTransformerLayer, TakesFixedNumbersOfTheMatrix) {
  Rng rng(Seed(), {2});
  const Array given = Uniform(9, -1, 1, &rng);  // theta_1_1, theta_2_2, theta_2_3
  Array theta;
  for (int n = 0; n < 3; ++n) {
    for (const double each : {given[n * 3], 0.25, -0.5, 0.0, given[n * 3 + 1], given[n * 3 + 2]}) {
      theta.push_back(each);
    }
  }
  ExpectSamples({3, 2, 4, 4, 4, 4}, "theta_1_2: 0.25 theta_1_3: -0.5 theta_2_1: 0", given, theta,
                &rng);
}

// Whether no sampled place lies within `margin` of a pixel's row or column, where the weights of
// pixels have kinks.
bool AreBetweenPixels(const Sizes& s, const Array& theta, double margin) {
  bool between = true;
  ForEachPlace(s, theta, [&](int64_t, double y, double x) {
    for (const double place : {y, x}) between &= std::abs(place - std::round(place)) > margin;
  });
  return between;
}

TEST(SpatialTransformerLayer, GradientsAreRight) {
  Rng rng(Seed(), {3});
  GradientCheck check;
  check.step = 2e-3;
  check.tolerance = 2e-2;
  check.most_kinks = 0;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{4, 5}, {3, 2}}) {
    const std::string param = StrCat("output_H: ", height, " output_W: ", width);
    // A step moves a place by less than 0.01: half a step, times the 4 rows or 5 columns.
    Array theta;
    do {
      theta = Matrices(2, &rng);
    } while (!AreBetweenPixels({2, 2, 4, 5, height, width}, theta, 0.01));
    const auto runner =
        RunnerOf(Text(param), {{{2, 2, 4, 5}, Uniform(80, -1, 1, &rng)}, {{2, 6}, theta}});
    EXPECT_EQ(runner->CheckGradients(check), "") << param;
  }
  const auto runner =
      RunnerOf(Text("theta_1_2: 0 theta_2_1: 0 output_H: 3"),
               {{{1, 2, 4, 5}, Uniform(40, -1, 1, &rng)}, {{1, 4}, {0.63, -0.12, 0.71, 0.21}}});
  EXPECT_EQ(runner->CheckGradients(check), "");
}

TEST(SpatialTransformerLayer, CopiesWithTheUnitMatrix) {
  const Array u = {1, 2, 3, 4, 5, 6};
  const std::string fixed =
      "theta_1_1: 1 theta_1_2: 0 theta_1_3: 0 theta_2_1: 0 theta_2_2: 1 theta_2_3: 0";
  const auto runner = RunnerOf(Text(fixed), {{{1, 1, 2, 3}, u}});
  EXPECT_EQ(runner->Output(), u);
  const Array again = {6, 5, 4, 3, 2, 1, 0, 7};
  runner->Reshape({1, 1, 4, 2}, again);
  EXPECT_EQ(runner->Output(), again);
  runner->Backward(again);
  EXPECT_EQ(GetDiff(runner->bottom()), again);
}

TEST(SpatialTransformerLayer, HasTheGradientsThatItsSettingsAllow) {
  const std::vector<Bottom> bottoms = {{{1, 1, 1, 1}, {0}}, {{1, 6}, Array(6, 0.0)}};
  const auto both = RunnerOf(Text(), bottoms);
  EXPECT_TRUE(both->layer().AllowBackward(0));
  EXPECT_TRUE(both->layer().AllowBackward(1));
  EXPECT_FALSE(RunnerOf(Text("to_compute_dU: false"), bottoms)->layer().AllowBackward(0));
  const auto fixed = RunnerOf(Text("theta_1_1: 1 theta_1_2: 0 theta_1_3: 0 theta_2_1: 0 "
                                   "theta_2_2: 1 theta_2_3: 0"),
                              bottoms);
  EXPECT_FALSE(fixed->layer().AllowBackward(1));
}

TEST(SpatialTransformerLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& u = {2, 1, 2, 2},
                            const Shape& theta = {2, 6}) {
    return SetUpError(Text(param), {u, theta});
  };
  EXPECT_EQ(complaint("transform_type: 'grid'"), "'grid' given, expected 'affine'");
  EXPECT_EQ(complaint("sampler_type: 'cubic'"), "'cubic' given, expected 'bilinear'");
  EXPECT_CONTAINS(complaint("theta_2_3: nan"), "expected a finite number");
  EXPECT_CONTAINS(complaint("output_H: 0"), "0 given, expected a positive number");
  EXPECT_CONTAINS(complaint("output_W: -1"), "-1 given, expected a positive number");
  EXPECT_CONTAINS(complaint("output_W: 2000000000"), "more than");
  EXPECT_CONTAINS(complaint("", {2, 2}), "expected 4 (N, C, H, W)");
  EXPECT_EQ(complaint("", {2, 1, 2, 2}, {2, 5}),
            "has shape 2 5 (10), expected 2 6: the numbers of each image's matrix");
  EXPECT_CONTAINS(complaint("", {2, 1, 2, 2}, {1, 6}), "expected 2 6");
  EXPECT_CONTAINS(complaint("theta_1_1: 1"),
                  "expected 2 5: the numbers of each image's matrix that st_param does not fix");
}

}  // namespace
}  // namespace millrace::test
