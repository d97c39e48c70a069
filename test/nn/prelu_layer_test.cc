#include "test/nn/channel_reference.h"
#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

using reference::Channels;

TEST(PreluLayer, MatchesTheReferenceInEveryMemoryOrder) {
  Rng rng(Seed(), {1});
  for (const bool shared : {false, true}) {
    for (const Shape& shape : {Shape{2, 16, 3, 5}, Shape{3, 7}, Shape{2, 5, 4, 2, 3}}) {
      const std::string text =
          StrCat("type: 'PReLU' prelu_param { channel_shared: ", shared ? "true" : "false", " }");
      SCOPED_TRACE(text + ShapeText(shape));
      const int64_t count = ShapeCount(shape);
      const Channels channels{shape[0], shape[1], count / shape[0] / shape[1]};
      const Channels of = shared ? Channels{1, 1, count} : channels;
      const Array x = Apart(count, 0.01, &rng), dy = Uniform(count, -1, 1, &rng);
      const Array slope = Uniform(of.channels, -1, 1, &rng);
      Array y, dx;
      for (int64_t i = 0; i < count; ++i) {
        y.push_back(x[i] > 0 ? x[i] : slope[of.Of(i)] * x[i]);
        dx.push_back(x[i] > 0 ? dy[i] : slope[of.Of(i)] * dy[i]);
      }
      const Array dslope = of.Sums([&](int64_t i) { return x[i] > 0 ? 0 : dy[i] * x[i]; });
      const auto taken = ForEachLayout(text, shape, x, [&](LayerRunner& runner) {
        EXPECT_EQ(runner.param(0).shape(), shared ? Shape{} : Shape{shape[1]});
        SetData(slope, &runner.param(0));
        EXPECT_EQ(Diff(y, runner.Output(), 1e-6), "");
        runner.Backward(dy);
        EXPECT_EQ(Diff(dx, GetDiff(runner.bottom()), 1e-6), "");
        EXPECT_EQ(Diff(dslope, GetDiff(runner.param(0)), 1e-5), "");
      });
      EXPECT_EQ(taken.size(), shape == (Shape{2, 16, 3, 5}) ? 4u : 1u);
    }
  }
}

TEST(PreluLayer, GradientsAreRightInPlaceAndNot) {
  Rng rng(Seed(), {2});
  for (const char* text : {"type: 'PReLU'", "type: 'PReLU' prelu_param { channel_shared: true }"}) {
    for (const bool in_place : {false, true}) {
      LayerRunner runner(text);
      runner.AddBottom({4, 10}, Apart(40, 0.1, &rng));
      in_place ? runner.SetUpInPlace() : runner.SetUp();
      // A negative slope: the output's sign does not tell the input's.
      SetData(Uniform(runner.param(0).count(), -0.5, 0.5, &rng), &runner.param(0));
      EXPECT_EQ(runner.CheckGradients(), "");
    }
  }
}

TEST(PreluLayer, BeginsWithSlopesOfAQuarter) {
  LayerRunner runner("type: 'PReLU'");
  runner.AddBottom({1, 2}, {1, -1});
  runner.SetUp();
  EXPECT_EQ(runner.layer().params()[0].filler.value(), 0.25f);
}

TEST(PreluLayer, FollowsABottomThatGrows) {
  LayerRunner runner("type: 'PReLU'");
  runner.AddBottom({1, 2}, {1, -1});
  runner.SetUpInPlace();
  SetData({0.5, 2}, &runner.param(0));
  runner.Reshape({2, 2, 2}, {1, -1, 1, -1, -2, 2, -2, 2});
  EXPECT_EQ(Diff({1, -0.5, 1, -2, -1, 2, -4, 2}, runner.Output()), "");
}

TEST(PreluLayer, RefusesABottomWithoutChannels) {
  LayerRunner runner("type: 'PReLU'");
  runner.AddBottom({3}, {1, 2, 3});
  EXPECT_EQ(ErrorOf([&] { runner.SetUp(); }), "1 axes given, expected at least 2");
  LayerRunner other("type: 'PReLU'");
  other.AddBottom({1, 3}, {1, 2, 3});
  other.SetUp();
  EXPECT_EQ(ErrorOf([&] { other.Reshape({1, 2}, {1, 2}); }), "1 2 (2) given, expected 3 channels");
}

}  // namespace
}  // namespace millrace::test
