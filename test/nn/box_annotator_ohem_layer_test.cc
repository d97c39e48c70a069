#include <algorithm>
#include <map>
#include <numeric>

#include "test/nn/layer_runner.h"

namespace millrace::test {
namespace {

std::string BoxAnnotatorOhemText(const std::string& param) {
  return "type: 'BoxAnnotatorOHEM' box_annotator_ohem_param { " + param + " }";
}

// `area` positions per item; 0 for bottoms of two axes.
void ExpectHardest(int64_t items, int64_t area, int64_t kept, Rng* rng) {
  const int64_t positions = std::max<int64_t>(area, 1), count = items * positions;
  const auto shape = [&](int64_t channels) {
    return area == 0 ? Shape{items, channels} : Shape{items, channels, 1, area};
  };
  Array regions(count * 5), labels, weights = Uniform(count * 8, 0.5, 1, rng);
  for (int64_t n = 0; n < items; ++n) {
    for (int64_t s = 0; s < positions; ++s) {
      regions[n * 5 * positions + s] = static_cast<double>(rng->Below(3));
    }
  }
  const Array loss = Apart(count, 0.01, rng);
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<double>(rng->Below(20)));

  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return loss[a] > loss[b]; });
  std::map<double, int64_t> taken;
  Array expected_labels(count, -7), expected_weights(count * 8, 0);
  for (const int64_t i : order) {
    const int64_t n = i / positions, s = i % positions;
    if (taken[regions[n * 5 * positions + s]]++ >= kept) continue;
    expected_labels[i] = labels[i];
    for (int64_t c = 0; c < 8; ++c) {
      const int64_t at = (n * 8 + c) * positions + s;
      expected_weights[at] = weights[at];
    }
  }

  LayerRunner runner(BoxAnnotatorOhemText(StrCat("ignore_label: -7 roi_per_img: ", kept)));
  runner.AddBottom(shape(5), regions);
  runner.AddBottom(shape(1), loss);
  runner.AddBottom(shape(1), labels);
  runner.AddBottom(shape(8), weights);
  runner.SetUp(2);
  EXPECT_EQ(runner.Output(), expected_labels);
  EXPECT_EQ(GetData(runner.top(1)), expected_weights);
  EXPECT_EQ(runner.top(0).shape(), shape(1));
  EXPECT_EQ(runner.top(1).shape(), shape(8));
}

TEST(BoxAnnotatorOhemLayer, KeepsTheRegionsOfEachImageWithTheLargestLoss) {
  Rng rng(Seed(), {1});
  ExpectHardest(50, 0, 4, &rng);
  ExpectHardest(20, 3, 5, &rng);
  ExpectHardest(6, 0, 100, &rng);
}

TEST(BoxAnnotatorOhemLayer, TakesTheFirstOfRegionsWithTheSameLoss) {
  LayerRunner runner(BoxAnnotatorOhemText("roi_per_img: 2"));
  runner.AddBottom({4, 5}, Array(20, 0));
  for (int i = 0; i < 2; ++i) runner.AddBottom({4}, {3, 3, 3, 3});
  runner.AddBottom({4, 1}, {1, 2, 3, 4});
  runner.SetUp(2);
  EXPECT_EQ(runner.Output(), (Array{3, 3, -1, -1}));
  EXPECT_EQ(GetData(runner.top(1)), (Array{1, 2, 0, 0}));
}

TEST(BoxAnnotatorOhemLayer, HasNoGradient) {
  LayerRunner runner(BoxAnnotatorOhemText("roi_per_img: 1"));
  runner.AddBottom({1, 5}, Array(5, 0));
  for (int i = 0; i < 3; ++i) runner.AddBottom({1, 1}, {1});
  runner.SetUp(2);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(runner.layer().AllowBackward(i));
}

TEST(BoxAnnotatorOhemLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const std::vector<Shape>& shapes) {
    LayerRunner runner(BoxAnnotatorOhemText(param));
    for (const Shape& shape : shapes) runner.AddBottom(shape, Array(ShapeCount(shape)));
    return ErrorOf([&] { runner.SetUp(2); });
  };
  const std::string good = "roi_per_img: 3";
  EXPECT_EQ(complaint("", {{2, 5}, {2, 1}, {2}, {2, 8}}),
            "0 given or missing, expected at least 1");
  for (const std::vector<Shape>& shapes : {std::vector<Shape>{{2, 4}, {2}, {2}, {2, 8}},
                                           {{2, 5}, {3}, {2}, {2, 8}},
                                           {{2, 5}, {2}, {2, 2}, {2, 8}},
                                           {{2, 5}, {2}, {2}, {3, 8}},
                                           {{2, 5}, {2}, {2}, {2, 8, 3}}}) {
    EXPECT_CONTAINS(complaint(good, shapes), "expected regions of 5 numbers");
  }
}

}  // namespace
}  // namespace millrace::test
