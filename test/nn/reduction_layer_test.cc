#include <cmath>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

TEST(ReductionLayer, ReducesTheLastAxes) {
  Rng rng(Seed(), {1});
  const Shape shape = {3, 4, 5};
  for (const char* operation : {"SUM", "ASUM", "SUMSQ", "MEAN"}) {
    for (int axis : {0, 1, 2, -1}) {
      for (const double coeff : {1.0, -0.5}) {
        const std::string text =
            StrCat("type: 'Reduction' reduction_param { operation: ", operation, " axis: ", axis,
                   " coeff: ", coeff, " }");
        SCOPED_TRACE(text);
        const Array x = Apart(60, 0.05, &rng);
        LayerRunner runner(text);
        runner.AddBottom(shape, x);
        runner.SetUp();
        const int begin = axis < 0 ? axis + 3 : axis;
        ASSERT_EQ(runner.top().shape(), Shape(shape.begin(), shape.begin() + begin));
        const int64_t rows = runner.top().count(), length = 60 / rows;
        Array expected(rows, 0.0);
        for (int64_t i = 0; i < 60; ++i) {
          const std::string name = operation;
          expected[i / length] += coeff * (name == "ASUM"    ? std::abs(x[i])
                                           : name == "SUMSQ" ? x[i] * x[i]
                                           : name == "MEAN"  ? x[i] / length
                                                             : x[i]);
        }
        EXPECT_EQ(Diff(expected, runner.Output()), "");
        EXPECT_EQ(runner.CheckGradients(), "");
      }
    }
  }
}

TEST(ReductionLayer, MagnitudeHasNoGradientAtZero) {
  LayerRunner runner("type: 'Reduction' reduction_param { operation: ASUM }");
  runner.AddBottom({3}, {0, -2, 2});
  runner.SetUp();
  runner.Forward();
  runner.Backward({5});
  EXPECT_EQ(GetDiff(runner.bottom()), (Array{0, -5, 5}));
}

TEST(ReductionLayer, FollowsABottomOfAnotherSize) {
  LayerRunner runner("type: 'Reduction' reduction_param { operation: MEAN axis: 1 }");
  runner.AddBottom({1, 2}, {1, 2});
  runner.SetUp();
  runner.Reshape({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(runner.Output(), (Array{2.5, 6.5}));
}

TEST(ReductionLayer, RefusesAMissingAxis) {
  LayerRunner runner("type: 'Reduction' reduction_param { axis: 2 }");
  runner.AddBottom({2, 3}, Array(6));
  EXPECT_CONTAINS(ErrorOf([&] { runner.SetUp(); }), "the bottom has 2 axes");
}

}  // namespace
}  // namespace millrace::test
