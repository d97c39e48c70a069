#include <algorithm>
#include <cmath>
#include <limits>

#include "test/nn/loss_support.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string ProposalText(const std::string& param) {
  return "name: 'rpn' type: 'Proposal' proposal_param { " + param + " }";
}

// As a net does: with the values of the bottoms, Reshape before Forward.
Array Found(LayerRunner* runner) {
  runner->layer().Reshape(runner->bottoms(), runner->tops());
  return runner->Output();
}

struct Candidate {
  double score, x1, y1, x2, y2;  // the last pixel is inside

  double Area() const { return (x2 - x1 + 1) * (y2 - y1 + 1); }
  double Overlap(const Candidate& other) const {
    const double w = std::min(x2, other.x2) - std::max(x1, other.x1) + 1;
    const double h = std::min(y2, other.y2) - std::max(y1, other.y1) + 1;
    if (w <= 0 || h <= 0) return 0;
    return w * h / (Area() + other.Area() - w * h);
  }
};

struct Settings {
  size_t before, after;  // suppression
  double threshold, least;
};

// The rows that remain of the candidates of image `image`, and their scores.
void Choose(int image, std::vector<Candidate> all, const Settings& settings, Array* rows,
            Array* scores) {
  std::erase_if(all, [&](const Candidate& c) {
    return c.x2 - c.x1 + 1 < settings.least || c.y2 - c.y1 + 1 < settings.least;
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  all.resize(std::min(all.size(), settings.before));
  std::vector<Candidate> kept;
  for (const Candidate& each : all) {
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Candidate& better) {
      return each.Overlap(better) > settings.threshold;
    });
    if (!hidden && kept.size() < settings.after) kept.push_back(each);
  }
  for (const Candidate& each : kept) {
    for (const double value : {double(image), each.x1, each.y1, each.x2, each.y2}) {
      rows->push_back(value);
    }
    scores->push_back(each.score);
  }
}

TEST(ProposalLayer, MovesAnchorsAndSuppressesThoseThatOverlap) {
  Rng rng(Seed(), {1});
  constexpr int64_t kImages = 2, kRows = 3, kColumns = 4, kAnchors = 4, kArea = kRows * kColumns;
  // Width and height of the anchors: ratio 1 and 2, each of scale 1 and 2.
  constexpr double kSizes[kAnchors][2] = {{8, 8}, {16, 16}, {6, 12}, {12, 24}};
  for (const Settings& settings : {Settings{6000, 300, 0.5, 0}, Settings{20, 300, 0.25, 0},
                                   Settings{6000, 5, 0.5, 0}, Settings{30, 6, 0.75, 10}}) {
    SCOPED_TRACE(StrCat(settings.before, " ", settings.after, " ", settings.threshold));
    // Changes of centres in eighths of an anchor: every number below is exact.
    const Array scores = Apart(kImages * 2 * kAnchors * kArea, 1e-3, &rng);
    Array changes(kImages * 4 * kAnchors * kArea, 0.0);
    for (size_t i = 0; i < changes.size(); ++i) {
      if (i / kArea % 4 < 2) changes[i] = (static_cast<double>(rng.Below(9)) - 4) / 8;
    }
    const Array images = {24, 32, 0.5, 30, 28, 1};
    Array rows, kept_scores;
    for (int n = 0; n < kImages; ++n) {
      std::vector<Candidate> all;
      for (int64_t cell = 0; cell < kArea; ++cell) {
        for (int64_t a = 0; a < kAnchors; ++a) {
          const auto change = [&](int64_t k) {
            return changes[((n * kAnchors + a) * 4 + k) * kArea + cell];
          };
          // An anchor's edges are around the centre of 8 pixels, 3.5, and half a pixel inside.
          const auto edges = [&](double size, double first, double moved, double limit) {
            const double low = first + 3.5 - (size - 1) / 2 + size * moved;
            return std::pair{std::clamp(low, 0.0, limit - 1),
                             std::clamp(low + size, 0.0, limit - 1)};
          };
          const auto [x1, x2] = edges(kSizes[a][0], static_cast<double>(cell % kColumns) * 8,
                                      change(0), images[n * 3 + 1]);
          const auto [y1, y2] = edges(kSizes[a][1], static_cast<double>(cell / kColumns) * 8,
                                      change(1), images[n * 3]);
          all.push_back({scores[((n * 2 + 1) * kAnchors + a) * kArea + cell], x1, y1, x2, y2});
        }
      }
      Settings own = settings;
      own.least *= images[n * 3 + 2];
      Choose(n, all, own, &rows, &kept_scores);
    }
    const auto runner =
        RunnerOf(ProposalText(StrCat(
                     "feat_stride: 8 base_size: 8 ratio: 1 ratio: 2 scale: 1 scale: 2 min_size: ",
                     settings.least, " pre_nms_topn: ", settings.before,
                     " post_nms_topn: ", settings.after, " nms_thresh: ", settings.threshold)),
                 {{{kImages, 2 * kAnchors, kRows, kColumns}, scores},
                  {{kImages, 4 * kAnchors, kRows, kColumns}, changes},
                  {{kImages, 3}, images}},
                 2);
    EXPECT_EQ(Found(runner.get()), rows);
    EXPECT_EQ(runner->top(0).shape(), (Shape{std::ssize(kept_scores), 5}));
    EXPECT_EQ(runner->top(1).shape(), (Shape{std::ssize(kept_scores)}));
    EXPECT_EQ(GetData(runner->top(1)), kept_scores);
  }
}

TEST(ProposalLayer, HasTheAnchorsOfThePaperByDefault) {
  // Anchors that the authors list for these settings, counted from 0.
  const Array anchors[9] = {{-84, -40, 99, 55}, {-176, -88, 191, 103},  {-360, -184, 375, 199},
                            {-56, -56, 71, 71}, {-120, -120, 135, 135}, {-248, -248, 263, 263},
                            {-36, -80, 51, 95}, {-80, -168, 95, 183},   {-168, -344, 183, 359}};
  Array scores(9, 0.0);
  for (int i = 0; i < 9; ++i) scores.push_back(9 - i);
  Array changes;
  for (int a = 0; a < 9; ++a) changes.insert(changes.end(), {2.0, 2.0, 0.0, 0.0});
  // No box overlaps another one by more than all of it, and the image is large.
  const auto runner =
      RunnerOf(ProposalText("nms_thresh: 1"),
               {{{1, 18, 1, 1}, scores}, {{1, 36, 1, 1}, changes}, {{1, 3}, {4000, 4000, 1}}});
  Array expected;
  for (const Array& a : anchors) {
    const double w = a[2] - a[0] + 1, h = a[3] - a[1] + 1;
    // The boxes end at their centre plus half their size, one pixel after the anchor's last one.
    const Array row = {0, a[0] + 2 * w, a[1] + 2 * h, a[2] + 1 + 2 * w, a[3] + 1 + 2 * h};
    expected.insert(expected.end(), row.begin(), row.end());
  }
  EXPECT_EQ(Found(runner.get()), expected);
}

TEST(ProposalLayer, ChangesTheSizeOfAnchors) {
  const auto runner = RunnerOf(ProposalText("base_size: 10 ratio: 1 scale: 1 min_size: 1"),
                               {{{1, 2, 1, 1}, {0, 1}},
                                {{1, 4, 1, 1}, {2, 3, std::log(2.0), std::log(0.5)}},
                                {{1, 1, 1, 3}, {100, 100, 1}}});
  // The centre moves from (5, 5) to (25, 35), and 10 x 10 becomes 20 x 5.
  EXPECT_EQ(Diff({0, 15, 32.5, 35, 37.5}, Found(runner.get()), 1e-6), "");
}

TEST(ProposalLayer, TakesTheScaleOfTheWidthIfItIsAnother) {
  const auto found = [](const Array& image) {
    const auto runner = RunnerOf(
        ProposalText("base_size: 10 ratio: 1 scale: 1 min_size: 5"),
        {{{1, 2, 1, 1}, {0, 1}}, {{1, 4, 1, 1}, {1, 1, 0, 0}}, {{1, std::ssize(image)}, image}});
    return Found(runner.get()).size() / 5;
  };
  // The box has 11 x 11 pixels.
  EXPECT_EQ(found({100, 100, 2}), 1);
  EXPECT_EQ(found({100, 100, 3}), 0);
  EXPECT_EQ(found({100, 100, 2, 3}), 0);
  EXPECT_EQ(found({100, 100, 3, 2}), 0);
  EXPECT_EQ(found({100, 100, 2, 2, 9}), 1);
}

TEST(ProposalLayer, LeavesOutWhatIsNoNumber) {
  const auto runner =
      RunnerOf(ProposalText("base_size: 4 ratio: 1 scale: 1 min_size: 1"),
               {{{1, 2, 1, 4}, {0, 0, 0, 0, 1, kNan, 3, 4}},
                {{1, 4, 1, 4}, {0, 0, kNan, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 0, 0, 0, 0}},
                {{1, 3}, {50, 50, 1}}},
               2);
  // The last box is as wide as the image.
  EXPECT_EQ(Found(runner.get()), (Array{0, 0, 0, 49, 4, 0, 0, 0, 4, 4}));
  EXPECT_EQ(GetData(runner->top(1)), (Array{4, 1}));
}

TEST(ProposalLayer, FeedsAPoolingOfRegionsAlsoWithNone) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 'scores' top: 'changes' top: 'images' top: 'map'"
      "  input_param { shape { dim: 1 dim: 2 dim: 2 dim: 2 } shape { dim: 1 dim: 4 dim: 2 dim: 2 }"
      "    shape { dim: 1 dim: 3 } shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }"
      "layer { name: 'rpn' type: 'Proposal' bottom: 'scores' bottom: 'changes' bottom: 'images'"
      "  top: 'rois' proposal_param { base_size: 16 ratio: 1 scale: 1 nms_thresh: 0.9 } }"
      "layer { name: 'pool' type: 'ROIPooling' bottom: 'map' bottom: 'rois' top: 'y'"
      "  roi_pooling_param { pooled_h: 1 pooled_w: 1 spatial_scale: 0.0625 } }");
  FillRandom(net->FindBlob("scores"), 1);
  float* const image = net->FindBlob("images")->data();
  image[0] = image[1] = 32;
  image[2] = 1;
  net->Forward();
  EXPECT_EQ(net->FindBlob("y")->shape(), (Shape{4, 3, 1, 1}));
  image[2] = 100;  // all are too small
  net->Forward();
  EXPECT_EQ(net->FindBlob("y")->shape(), (Shape{0, 3, 1, 1}));
  image[1] = 0;
  EXPECT_EQ(ErrorOf([&] { net->Forward(); }),
            "layer 'rpn': bottom[2]: image 0 has the width 0, expected a positive number");
}

TEST(ProposalLayer, HasNoGradient) {
  const auto runner =
      RunnerOf(ProposalText("ratio: 1 scale: 1"),
               {{{1, 2, 1, 1}, {0, 1}}, {{1, 4, 1, 1}, Array(4, 0.0)}, {{1, 3}, {9, 9, 1}}});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(runner->layer().AllowBackward(i));
}

TEST(ProposalLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& scores = {1, 18, 2, 3},
                            const Shape& changes = {1, 36, 2, 3}, const Shape& images = {1, 3}) {
    return SetUpError(ProposalText(param), {scores, changes, images});
  };
  EXPECT_CONTAINS(complaint("feat_stride: 0"), "0 given, expected 1 to 1048576");
  EXPECT_CONTAINS(complaint("base_size: 0"), "0 given, expected 1 to 1048576");
  EXPECT_CONTAINS(complaint("pre_nms_topn: 0"), "0 given, expected 1 to 1048576");
  EXPECT_CONTAINS(complaint("post_nms_topn: 2000000"), "2000000 given, expected 1 to 1048576");
  EXPECT_CONTAINS(complaint("nms_thresh: nan"), "expected at least 0");
  EXPECT_CONTAINS(complaint("ratio: 0"), "0 given, expected a positive number");
  EXPECT_CONTAINS(complaint("scale: -1"), "-1 given, expected a positive number");
  EXPECT_EQ(complaint("scale: 8"),
            "has shape 1 18 2 3 (108), expected N 6 H W: 2 numbers for each of 3 anchors");
  EXPECT_EQ(complaint("", {1, 18, 2, 3}, {1, 36, 3, 2}),
            "has shape 1 36 3 2 (216), expected 1 36 2 3: 4 numbers for each of 9 anchors");
  EXPECT_CONTAINS(complaint("", {2, 18, 2, 3}, {2, 36, 2, 3}), "expected 2 rows of at least 3");
  EXPECT_CONTAINS(complaint("", {1, 18, 2, 3}, {1, 36, 2, 3}, {1, 2}), "rows of at least 3");
}

}  // namespace
}  // namespace millrace::test
