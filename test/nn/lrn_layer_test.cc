#include "test/nn/layer_runner.h"
#include "test/nn/reference.h"

namespace millrace::test {
namespace {

using reference::Lrn;

std::string LrnText(const Lrn& g) {
  return StrCat("type: 'LRN' bottom: 'x' lrn_param { local_size: ", g.size, " alpha: ", g.alpha,
                " beta: ", g.beta, " k: ", g.k,
                " norm_region: ", g.within_channel ? "WITHIN_CHANNEL" : "ACROSS_CHANNELS", " }");
}

std::vector<Lrn> Cases() {
  std::vector<Lrn> cases;
  for (bool within : {false, true}) {
    for (int64_t size : {1, 3, 5}) {
      for (int64_t channels : {1, 2, 7, 16, 32}) {
        Lrn g;
        g.n = 2, g.c = channels, g.h = 6, g.w = 5, g.size = size, g.within_channel = within;
        g.alpha = 0.5 * size, g.k = within ? 1 : 2;
        g.beta = channels == 7 ? 0.5 : 0.75;
        cases.push_back(g);
      }
    }
  }
  return cases;
}

TEST(LrnLayer, MatchesTheReferenceInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (const Lrn& g : Cases()) {
    SCOPED_TRACE(LrnText(g));
    const int64_t count = g.n * g.c * g.h * g.w;
    const Array x = Uniform(count, -2, 2, &rng), dy = Uniform(count, -1, 1, &rng);
    ForEachLayout(LrnText(g), {g.n, g.c, g.h, g.w}, x, [&](LayerRunner& runner) {
      EXPECT_EQ(Diff(g.Forward(x), runner.Output(), 1e-5), "");
      runner.Backward(dy);
      EXPECT_EQ(Diff(g.Backward(x, dy), GetDiff(runner.bottom()), 1e-5), "");
    });
  }
}

TEST(LrnLayer, GradientsAreRight) {
  Rng rng(Seed(), {2});
  for (const Lrn& g : Cases()) {
    if (g.c == 32) continue;
    SCOPED_TRACE(LrnText(g));
    ForEachLayout(LrnText(g), {g.n, g.c, g.h, g.w}, Uniform(g.n * g.c * g.h * g.w, -1, 1, &rng),
                  [&](LayerRunner& runner) { EXPECT_EQ(runner.CheckGradients(), ""); });
  }
}

TEST(LrnLayer, GradientsAreRightInPlace) {
  Rng rng(Seed(), {5});
  for (const Lrn& g : Cases()) {
    if (g.c > 8) continue;
    SCOPED_TRACE(LrnText(g));
    const Array x = Uniform(g.n * g.c * g.h * g.w, -1, 1, &rng);
    LayerRunner runner(LrnText(g));
    runner.AddBottom({g.n, g.c, g.h, g.w}, x);
    runner.SetUpInPlace();
    EXPECT_EQ(Diff(g.Forward(x), runner.Output(), 1e-5), "");
    EXPECT_EQ(runner.CheckGradients(), "");
  }
}

TEST(LrnLayer, WithinAChannelKIsOne) {
  Rng rng(Seed(), {6});
  Lrn g;
  g.n = 1, g.c = 2, g.h = 4, g.w = 3, g.within_channel = true, g.k = 1;
  const Array x = Uniform(24, -2, 2, &rng);
  Lrn other = g;
  other.k = 5;
  LayerRunner runner(LrnText(other));
  runner.AddBottom({1, 2, 4, 3}, x);
  runner.SetUp();
  EXPECT_EQ(Diff(g.Forward(x), runner.Output(), 1e-5), "");
  EXPECT_EQ(runner.CheckGradients(), "");
}

TEST(LrnLayer, FollowsABottomOfAnotherSize) {
  Rng rng(Seed(), {3});
  Lrn g;
  g.n = 1, g.c = 4, g.h = 3, g.w = 3;
  LayerRunner runner(LrnText(g));
  runner.AddBottom({1, 4, 3, 3}, Uniform(36, -1, 1, &rng));
  runner.SetUp();
  runner.Forward();
  g.n = 3, g.h = 5;
  const Array x = Uniform(180, -1, 1, &rng);
  runner.Reshape({3, 4, 5, 3}, x);
  EXPECT_EQ(Diff(g.Forward(x), runner.Output()), "");
}

TEST(LrnLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& shape) {
    LayerRunner runner("type: 'LRN' bottom: 'x' lrn_param { " + param + " }");
    runner.AddBottom(shape, Array(ShapeCount(shape), 0.0));
    return ErrorOf([&] { runner.SetUp(); });
  };
  EXPECT_CONTAINS(complaint("local_size: 4", {1, 2, 3, 3}), "expected an odd number");
  EXPECT_CONTAINS(complaint("local_size: 0", {1, 2, 3, 3}), "expected an odd number");
  EXPECT_CONTAINS(complaint("", {2, 3}), "4 axes");
}

}  // namespace
}  // namespace millrace::test
