#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string DiceLossText(const std::string& param = "") {
  return "name: 'loss' type: 'DiceLoss' loss_param { " + param + " }";
}

TEST(DiceLossLayer, MatchesTheFormula) {
  Rng rng(Seed(), {1});
  for (const bool ignores : {false, true}) {
    const Shape shape{3, 1, 40, 50};
    const int64_t count = ShapeCount(shape);
    const Array x = Uniform(count, -3, 3, &rng);
    const Array t = RandomClasses(count, ignores ? 3 : 2, &rng);
    double overlap = 0, total = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (ignores && t[i] == 2) continue;
      const double s = 1 / (1 + std::exp(-x[i]));
      overlap += t[i] * s;
      total += t[i] + s;
    }
    const auto runner =
        RunnerOf(DiceLossText(ignores ? "ignore_label: 2" : ""), {{shape, x}, {shape, t}});
    EXPECT_EQ(Diff({1 - 2 * overlap / total}, runner->Output(), 1e-5), "");
  }
}

TEST(DiceLossLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const char* param : {"", "ignore_label: 2"}) {
    const auto runner = RunnerOf(DiceLossText(param), {{{3, 4}, Uniform(12, -2, 2, &rng)},
                                                       {{3, 4}, RandomClasses(12, 3, &rng)}});
    EXPECT_EQ(runner->CheckGradients(), "") << param;
  }
}

TEST(DiceLossLayer, IsZeroForAPerfectMask) {
  const auto runner = RunnerOf(DiceLossText(), {{{1, 3}, {80, -80, 80}}, {{1, 3}, {1, 0, 1}}});
  EXPECT_NEAR(runner->Output()[0], 0, 1e-6);
  const auto empty = RunnerOf(DiceLossText(), {{{1, 2}, {-80, -80}}, {{1, 2}, {0, 0}}});
  EXPECT_NEAR(empty->Output()[0], 0, 1e-6);
}

TEST(DiceLossLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(DiceLossText(), {{{1, 1}, {0}}, {{1, 1}, {1}}});
  EXPECT_NEAR(runner->Output()[0], 1 - 1 / 1.5, 1e-5);
  Resize(runner.get(), {{{2, 1}, {0, 0}}, {{2, 1}, {1, 0}}});
  EXPECT_NEAR(runner->Output()[0], 0.5, 1e-5);
}

TEST(DiceLossLayer, RefusesBottomsThatDoNotFit) {
  EXPECT_CONTAINS(SetUpError(DiceLossText(), {{4, 3}, {4, 2}}),
                  "expected as many values as bottom[0]");
}

TEST(DiceLossLayer, IsALossOfItsScoresAlone) {
  ExpectLossOfBottomZero(RunnerOf(DiceLossText(), {{{1, 1}, {0}}, {{1, 1}, {0}}})->layer());
}

}  // namespace
}  // namespace millrace::test
