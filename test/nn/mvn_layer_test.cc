#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

using reference::Channels;

std::string Text(bool variance, bool across, const std::string& more = "") {
  return StrCat("type: 'MVN' mvn_param { normalize_variance: ", variance ? "true" : "false",
                " across_channels: ", across ? "true" : "false", " ", more, " }");
}

// The rows that are normalised.
Channels RowsOf(const Shape& shape, bool across) {
  const int64_t rows = across ? shape[0] : shape[0] * shape[1];
  return {1, rows, ShapeCount(shape) / rows};
}

Array Deviations(const Channels& rows, const Array& x, bool variance, double eps) {
  Array deviations = rows.Variances(x);
  for (double& each : deviations) each = variance ? std::sqrt(each) + eps : 1;
  return deviations;
}

TEST(MvnLayer, MatchesTheReferenceInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (const bool variance : {false, true}) {
    for (const bool across : {false, true}) {
      for (const Shape& shape : {Shape{2, 16, 3, 5}, Shape{3, 5, 4, 4}, Shape{2, 6, 40, 40}}) {
        SCOPED_TRACE(Text(variance, across));
        const Channels rows = RowsOf(shape, across);
        const Array x = Uniform(rows.count(), 1, 3, &rng), dy = Uniform(rows.count(), -1, 1, &rng);
        const Array deviations = Deviations(rows, x, variance, 1e-9);
        const Array y = rows.Normalized(x, rows.Means(x), deviations);
        Array dx;
        if (variance) {
          dx = rows.NormalizedBackward(x, deviations, dy);
        } else {
          const Array means = rows.Means(dy);
          for (int64_t i = 0; i < rows.count(); ++i) dx.push_back(dy[i] - means[rows.Of(i)]);
        }
        const auto taken = ForEachLayout(Text(variance, across), shape, x, [&](LayerRunner& each) {
          EXPECT_EQ(Diff(y, each.Output(), 2e-6), "");
          each.Backward(dy);
          EXPECT_EQ(Diff(dx, GetDiff(each.bottom()), 2e-6), "");
        });
        EXPECT_EQ(taken.size(), shape[1] == 16 ? 4u : 2u);
      }
    }
  }
}

TEST(MvnLayer, AddsItsEpsToTheDeviation) {
  Rng rng(Seed(), {2});
  const Channels rows = RowsOf({2, 3, 4, 4}, false);
  const Array x = Uniform(96, -1, 1, &rng);
  LayerRunner runner(Text(true, false, "eps: 0.5"));
  runner.AddBottom({2, 3, 4, 4}, x);
  runner.SetUp();
  EXPECT_EQ(Diff(rows.Normalized(x, rows.Means(x), Deviations(rows, x, true, 0.5)), runner.Output(),
                 2e-6),
            "");
}

TEST(MvnLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {3});
  for (const bool variance : {false, true}) {
    for (const bool across : {false, true}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(Text(variance, across) + (in_place ? " in place" : ""));
        LayerRunner runner(Text(variance, across));
        runner.AddBottom({2, 3, 3, 4}, Uniform(72, -2, 2, &rng));
        in_place ? runner.SetUpInPlace() : runner.SetUp();
        EXPECT_EQ(runner.CheckGradients(), "");
      }
    }
  }
}

TEST(MvnLayer, MakesATopOfFourAxes) {
  for (const bool in_place : {false, true}) {
    LayerRunner runner("type: 'MVN' mvn_param { across_channels: true }");
    runner.AddBottom({2, 3}, {1, 2, 3, 7, 5, 3});
    in_place ? runner.SetUpInPlace() : runner.SetUp();
    EXPECT_EQ(runner.top().shape(), (Shape{2, 3, 1, 1}));
    const double deviation = std::sqrt(2.0 / 3);
    EXPECT_EQ(
        Diff({-1 / deviation, 0, 1 / deviation, 1 / deviation, 0, -1 / deviation}, runner.Output()),
        "");
  }
}

TEST(MvnLayer, FollowsABottomThatGrows) {
  LayerRunner runner("type: 'MVN' mvn_param { normalize_variance: false }");
  runner.AddBottom({1, 1, 1, 2}, {1, 2});
  runner.SetUpInPlace();
  runner.Reshape({2, 1, 1, 3}, {1, 2, 3, 4, 4, 7});
  EXPECT_EQ(Diff({-1, 0, 1, -1, -1, 2}, runner.Output()), "");
}

TEST(MvnLayer, RefusesMoreThanFourAxes) {
  LayerRunner runner("type: 'MVN'");
  runner.AddBottom({1, 1, 1, 1, 2}, {1, 2});
  EXPECT_EQ(ErrorOf([&] { runner.SetUp(); }), "5 axes given, expected at most 4");
}

}  // namespace
}  // namespace millrace::test
