#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string ChannelScaleText(const std::string& param = "") {
  return "type: 'ChannelScale' channel_scale_param { " + param + " }";
}

TEST(ChannelScaleLayer, MatchesPlainLoops) {
  Rng rng(Seed(), {1});
  struct Case {
    Shape x, scales;
    int64_t images, channels, area;
  };
  for (const Case& c : {Case{{2, 3, 4, 5}, {2, 1, 4, 5}, 2, 3, 20}, Case{{6, 7}, {6}, 6, 7, 1},
                        Case{{3, 1, 9}, {3, 9}, 3, 1, 9}}) {
    for (const std::string param :
         {"", "do_forward: false", "do_backward_feature: false", "do_backward_scale: false"}) {
      SCOPED_TRACE(StrCat(ShapeText(c.x), " ", param));
      const int64_t count = ShapeCount(c.x), scales = ShapeCount(c.scales);
      const Array x = Uniform(count, -1, 1, &rng), s = Uniform(scales, -2, 2, &rng);
      const Array dy = Uniform(count, -1, 1, &rng);
      Array y(count), dx(count), ds(scales, 0.0);
      for (int64_t n = 0; n < c.images; ++n) {
        for (int64_t channel = 0; channel < c.channels; ++channel) {
          for (int64_t i = 0; i < c.area; ++i) {
            const int64_t at = (n * c.channels + channel) * c.area + i, place = n * c.area + i;
            y[at] = x[at] * (param == "do_forward: false" ? 1 : s[place]);
            dx[at] = dy[at] * (param == "do_backward_feature: false" ? 1 : s[place]);
            if (param != "do_backward_scale: false") ds[place] += x[at] * dy[at];
          }
        }
      }
      const auto runner = RunnerOf(ChannelScaleText(param), {{c.x, x}, {c.scales, s}});
      EXPECT_EQ(Diff(y, runner->Output(), 1e-6), "");
      runner->Backward(dy);
      EXPECT_EQ(Diff(dx, GetDiff(runner->bottom()), 1e-6), "");
      EXPECT_EQ(Diff(ds, GetDiff(runner->bottom(1)), 1e-5), "");
      if (param.empty()) {
        EXPECT_EQ(runner->CheckGradients(), "");
      }
    }
  }
}

TEST(ChannelScaleLayer, FollowsBottomsOfAnotherShape) {
  const auto runner = RunnerOf(ChannelScaleText(), {{{1, 2}, {1, 2}}, {{1}, {3}}});
  EXPECT_EQ(runner->Output(), (Array{3, 6}));
  Resize(runner.get(), {{{2, 1, 2}, {1, 2, 3, 4}}, {{2, 2}, {1, 2, 3, 4}}});
  EXPECT_EQ(runner->Output(), (Array{1, 4, 9, 16}));
}

TEST(ChannelScaleLayer, RefusesWhatDoesNotFit) {
  EXPECT_CONTAINS(SetUpError(ChannelScaleText(), {{2, 3, 4, 4}, {2, 3, 4, 4}}),
                  "expected 2 images of 16 scales, one for each position of bottom[0]");
  EXPECT_CONTAINS(SetUpError(ChannelScaleText(), {{2, 3}, {1, 2}}),
                  "has shape 1 2 (2), expected 2 images of 1 scales");
  EXPECT_CONTAINS(SetUpError(ChannelScaleText(), {{2}, {2}}), "has 1 axes, expected at least 2");
  EXPECT_CONTAINS(SetUpError(ChannelScaleText("global_scale: true"), {{2, 3}, {2}}),
                  "true given, expected false");
}

}  // namespace
}  // namespace millrace::test
