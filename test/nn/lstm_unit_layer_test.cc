#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

const char kText[] = "type: 'LSTMUnit'";

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(LstmUnitLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  const int n = 3, d = 4;
  const Array c_before = Uniform(n * d, -2, 2, &rng), x = Uniform(n * 4 * d, -2, 2, &rng);
  const Array cont = {1, 0, 1};
  const auto runner =
      RunnerOf(kText, {{{1, n, d}, c_before}, {{1, n, 4 * d}, x}, {{1, n}, cont}}, 2);
  Array c(n * d), h(n * d);
  for (int at = 0; at < n * d; ++at) {
    const auto sum = [&](int gate) { return x[at / d * 4 * d + gate * d + at % d]; };
    c[at] = cont[at / d] * Sigmoid(sum(1)) * c_before[at] + Sigmoid(sum(0)) * std::tanh(sum(3));
    h[at] = Sigmoid(sum(2)) * std::tanh(c[at]);
  }
  EXPECT_EQ(Diff(c, runner->Output(), 1e-6), "");
  EXPECT_EQ(Diff(h, GetData(runner->top(1)), 1e-6), "");
}

TEST(LstmUnitLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  const auto runner = RunnerOf(kText,
                               {{{1, 2, 3}, Uniform(6, -1, 1, &rng)},
                                {{1, 2, 12}, Uniform(24, -1, 1, &rng)},
                                {{1, 2}, {1, 0}}},
                               2);
  EXPECT_FALSE(runner->layer().AllowBackward(2));
  EXPECT_EQ(runner->CheckGradients(), "");
  for (const auto& propagate : {std::vector<bool>{true, false, false}, {false, true, false}}) {
    GradientCheck check;
    check.propagate_down = propagate;
    EXPECT_EQ(runner->CheckGradients(check), "");
  }
}

TEST(LstmUnitLayer, FollowsBottomsOfAnotherShape) {
  const auto runner =
      RunnerOf(kText, {{{1, 1, 1}, {2}}, {{1, 1, 4}, {0, 0, 0, 0}}, {{1, 1}, {1}}}, 2);
  EXPECT_EQ(runner->Output(), Array{1});
  Resize(runner.get(), {{{1, 2, 1}, {2, 4}}, {{1, 2, 4}, Array(8, 0.0)}, {{1, 2}, {0, 1}}});
  EXPECT_EQ(runner->Output(), (Array{0, 2}));
}

TEST(LstmUnitLayer, RefusesBottomsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(kText, {{2, 2, 3}, {2, 2, 12}, {2, 2}}), "1 x streams x cells");
  EXPECT_CONTAINS(SetUpError(kText, {{1, 2, 3}, {1, 2, 3}, {1, 2}}), "expected 1 2 12 (24)");
  EXPECT_CONTAINS(SetUpError(kText, {{1, 2, 3}, {1, 2, 12}, {2}}), "expected 1 2 (2)");
}

}  // namespace
}  // namespace millrace::test
