// Arithmetic of boxes (src/nn/boxes), against plain loops.
#include <cmath>
#include <fstream>
#include <limits>

#include "contrib/detection/box_code.h"
#include "contrib/detection/boxes.h"
#include "contrib/detection/detection_files.h"
#include "contrib/detection/ground_truth.h"
#include "nn/detection_scores.h"
#include "test/support/blob_values.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Box RandomBox(Rng* rng) {
  const Array v = Uniform(4, 0, 1, rng);
  const auto x = static_cast<float>(v[0] * 0.8 - 0.1), y = static_cast<float>(v[1] * 0.8 - 0.1);
  return {x, y, x + static_cast<float>(0.1 + 0.4 * v[2]), y + static_cast<float>(0.1 + 0.4 * v[3])};
}

std::vector<Box> RandomBoxes(int count, Rng* rng) {
  std::vector<Box> boxes(count);
  for (Box& box : boxes) box = RandomBox(rng);
  return boxes;
}

TEST(Box, HasAnAreaIfItsEdgesAreInOrder) {
  EXPECT_FLOAT_EQ(Area({0.25f, 0.5f, 0.75f, 0.75f}), 0.125f);
  EXPECT_EQ(Area({0.75f, 0.5f, 0.25f, 0.75f}), 0);
  EXPECT_EQ(Area({0.25f, 0.75f, 0.75f, 0.5f}), 0);
  EXPECT_EQ(PixelArea({2, 3, 5, 4}), 8);
  EXPECT_EQ(PixelArea({2, 3, 2, 3}), 1);
  EXPECT_EQ(PixelArea({5, 3, 2, 4}), 0);
}

TEST(Box, OverlapsByTheShareOfTheUnion) {
  const Box box{0, 0, 0.5f, 0.5f};
  EXPECT_FLOAT_EQ(Overlap(box, box), 1);
  EXPECT_FLOAT_EQ(Overlap(box, {0.25f, 0, 0.75f, 0.5f}), 1 / 3.0f);
  EXPECT_EQ(Overlap(box, {0.5f, 0, 1, 0.5f}), 0);     // a common edge
  EXPECT_EQ(Overlap(box, {0.6f, 0, 1, 0.5f}), 0);     // beside it
  EXPECT_EQ(Overlap(box, {0, 0.6f, 0.5f, 1}), 0);     // below it
  EXPECT_EQ(Overlap({0, 0, 0, 0}, {0, 0, 0, 0}), 0);  // no area
  EXPECT_EQ(Overlap(box, {kNan, kNan, kNan, kNan}), 0);
}

TEST(Box, OverlapsInPixelsWithItsLastRowAndColumn) {
  const PixelBox a{{0, 0, 9, 9}, 100}, b{{5, 0, 14, 9}, 100}, c{{9, 9, 9, 9}, 1},
      d{{20, 0, 25, 9}, 60};
  EXPECT_FLOAT_EQ(PixelOverlap(a, b), 50 / 150.0f);
  EXPECT_FLOAT_EQ(PixelOverlap(a, c), 1 / 100.0f);
  EXPECT_EQ(PixelOverlap(a, d), 0);
}

TEST(Box, IsLimitedToTheImage) {
  EXPECT_EQ(Clip({-1, 0.5f, 2, 3}), (Box{0, 0.5f, 1, 1}));
  EXPECT_EQ(Clip({-1, 30, 200, 3}, 100, 20), (Box{0, 20, 100, 3}));
  EXPECT_FALSE(CrossesImage({0, 0, 1, 1}));
  for (const Box& box : {Box{-0.1f, 0, 1, 1}, {0, -0.1f, 1, 1}, {0, 0, 1.1f, 1}, {0, 0, 1, 1.1f}}) {
    EXPECT_TRUE(CrossesImage(box));
  }
}

// The formulas of the page on codes, with the variance v.
std::array<double, 4> Expected(BoxCode::Type type, const Prior& p, const Box& b, bool in_target) {
  const double v[4] = {in_target ? 1 : p.variance[0], in_target ? 1 : p.variance[1],
                       in_target ? 1 : p.variance[2], in_target ? 1 : p.variance[3]};
  const double pw = p.box.xmax - p.box.xmin, ph = p.box.ymax - p.box.ymin;
  const double bw = b.xmax - b.xmin, bh = b.ymax - b.ymin;
  if (type == caffe::PriorBoxParameter::CENTER_SIZE) {
    return {((b.xmin + bw / 2) - (p.box.xmin + pw / 2)) / pw / v[0],
            ((b.ymin + bh / 2) - (p.box.ymin + ph / 2)) / ph / v[1], std::log(bw / pw) / v[2],
            std::log(bh / ph) / v[3]};
  }
  const bool corner = type == caffe::PriorBoxParameter::CORNER;
  const double w = corner ? 1 : pw, h = corner ? 1 : ph;
  return {(b.xmin - p.box.xmin) / w / v[0], (b.ymin - p.box.ymin) / h / v[1],
          (b.xmax - p.box.xmax) / w / v[2], (b.ymax - p.box.ymax) / h / v[3]};
}

TEST(BoxCode, FollowsItsFormulasAndDecodesWhatItHasEncoded) {
  Rng rng(Seed(), {1});
  for (const auto type : {caffe::PriorBoxParameter::CORNER, caffe::PriorBoxParameter::CENTER_SIZE,
                          caffe::PriorBoxParameter::CORNER_SIZE}) {
    for (const bool in_target : {false, true}) {
      SCOPED_TRACE(StrCat("type ", static_cast<int>(type), ", in target ", in_target));
      const BoxCode code(type, in_target);
      for (int i = 0; i < 20; ++i) {
        const Prior prior{RandomBox(&rng), {0.1f, 0.2f, 0.3f, 0.4f}};
        const Box box = RandomBox(&rng);
        const BoxCode::Values values = code.Encode(prior, box);
        const auto expected = Expected(type, prior, box, in_target);
        for (int k = 0; k < 4; ++k) EXPECT_NEAR(values[k], expected[k], 1e-4);
        const auto edges = ValuesOf(code.Decode(prior, values.data())), wanted = ValuesOf(box);
        for (int k = 0; k < 4; ++k) EXPECT_NEAR(edges[k], wanted[k], 1e-5);
      }
    }
  }
}

TEST(BoxCode, RefusesBoxesWithoutAnArea) {
  const Prior prior{{0, 0, 0.5f, 0.5f}, {0.1f, 0.1f, 0.2f, 0.2f}},
      flat{{0, 0, 0.5f, 0}, {1, 1, 1, 1}};
  const BoxCode centre(caffe::PriorBoxParameter::CENTER_SIZE, false);
  const BoxCode corner(caffe::PriorBoxParameter::CORNER, false);
  EXPECT_CONTAINS(ErrorOf([&] {
                    centre.Encode(prior, {0.5f, 0, 0.5f, 1});
                  }),
                  "ground truth box (0.5, 0, 0.5, 1) has no area");
  EXPECT_CONTAINS(ErrorOf([&] { centre.Encode(flat, {0, 0, 1, 1}); }), "prior box (0, 0, 0.5, 0)");
  EXPECT_CONTAINS(ErrorOf([&] { centre.Encode(flat, {kNan, 0, 1, 1}); }), "has no area");
  const float zeros[4] = {};
  EXPECT_CONTAINS(ErrorOf([&] { centre.Decode(flat, zeros); }), "has no area");
  EXPECT_EQ(corner.Decode(flat, zeros), flat.box);
  EXPECT_CONTAINS(ErrorOf([&] {
                    corner.Encode({{0, 0, 1, 1}, {1, 0, 1, 1}}, {0, 0, 1, 1});
                  }),
                  "variance of a prior box is 0");
}

TEST(BoxCode, ReadsPriorsWithTheirVariances) {
  const float values[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50, 60, 70, 80};
  const std::vector<Prior> priors = ReadPriors(values, 2);
  ASSERT_EQ(priors.size(), 2u);
  EXPECT_EQ(priors[1].box, (Box{5, 6, 7, 8}));
  EXPECT_EQ(priors[0].variance, (std::array<float, 4>{10, 20, 30, 40}));
  EXPECT_EQ(priors[1].variance, (std::array<float, 4>{50, 60, 70, 80}));
}

// Searches the best pair again and again.
std::vector<int> PlainMatches(const std::vector<GroundTruth>& objects,
                              const std::vector<Box>& boxes, std::optional<int> label,
                              const MatchRules& rules) {
  std::vector<int> match(boxes.size(), -1);
  std::vector<bool> paired(objects.size());
  const auto takes_part = [&](size_t i, size_t j) {
    return match[i] == -1 && (!label || objects[j].label == *label) &&
           Overlap(boxes[i], objects[j].box) > 1e-6f;
  };
  for (size_t i = 0; i < boxes.size(); ++i) {
    bool any = false;
    for (const GroundTruth& each : objects) any |= !label || each.label == *label;
    if (any && rules.ignore_crossing && CrossesImage(boxes[i])) match[i] = -2;
  }
  for (bool found = true; found;) {
    found = false;
    float most = 0;
    size_t box = 0, object = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      for (size_t j = 0; j < objects.size(); ++j) {
        if (paired[j] || !takes_part(i, j) || Overlap(boxes[i], objects[j].box) <= most) continue;
        most = Overlap(boxes[i], objects[j].box);
        box = i, object = j, found = true;
      }
    }
    if (found) match[box] = static_cast<int>(object), paired[object] = true;
  }
  if (rules.type == caffe::MultiBoxLossParameter::BIPARTITE) return match;
  std::vector<int> all = match;
  for (size_t i = 0; i < boxes.size(); ++i) {
    float most = -1;
    for (size_t j = 0; j < objects.size(); ++j) {
      const float overlap = Overlap(boxes[i], objects[j].box);
      if (!takes_part(i, j) || overlap < rules.threshold || overlap <= most) continue;
      most = overlap;
      all[i] = static_cast<int>(j);
    }
  }
  return all;
}

TEST(BoxMatch, AgreesWithARepeatedSearchOfTheBestPair) {
  Rng rng(Seed(), {2});
  for (int round = 0; round < 60; ++round) {
    std::vector<GroundTruth> objects;
    for (int j = 0; j < round % 6; ++j) objects.push_back({1 + j % 2, RandomBox(&rng), false});
    const std::vector<Box> boxes = RandomBoxes(25, &rng);
    for (const auto type :
         {caffe::MultiBoxLossParameter::BIPARTITE, caffe::MultiBoxLossParameter::PER_PREDICTION}) {
      for (const bool ignore : {false, true}) {
        for (const auto label : {std::optional<int>(), std::optional<int>(2)}) {
          const MatchRules rules{type, 0.3f, ignore};
          const BoxMatches matches = MatchBoxes(objects, boxes, label, rules);
          EXPECT_EQ(matches.object, PlainMatches(objects, boxes, label, rules));
        }
      }
    }
  }
}

TEST(BoxMatch, TellsTheLargestOverlapOfEachBox) {
  const std::vector<GroundTruth> objects = {{1, {0, 0, 0.5f, 0.5f}, false},
                                            {1, {0, 0, 1, 0.5f}, false}};
  const std::vector<Box> boxes = {{0, 0, 1, 0.5f}, {0.6f, 0.6f, 1, 1}, {0, 0, 0.5f, 0.5f}};
  const BoxMatches matches = MatchBoxes(objects, boxes, std::nullopt, {});
  EXPECT_EQ(matches.overlap, (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(matches.object, (std::vector<int>{1, -1, 0}));
}

TEST(BoxMatch, PairsOfEqualOverlapsTheFirst) {
  const Box same{0, 0, 0.5f, 0.5f};
  const std::vector<GroundTruth> objects = {{1, same, false}, {2, same, false}};
  const std::vector<Box> boxes = {same, same, same};
  MatchRules rules{caffe::MultiBoxLossParameter::BIPARTITE, 0.5f, false};
  EXPECT_EQ(MatchBoxes(objects, boxes, std::nullopt, rules).object, (std::vector<int>{0, 1, -1}));
  rules.type = caffe::MultiBoxLossParameter::PER_PREDICTION;
  EXPECT_EQ(MatchBoxes(objects, boxes, std::nullopt, rules).object, (std::vector<int>{0, 1, 0}));
}

TEST(BoxMatch, FindsNothingForBoxesThatAreNotNumbers) {
  const std::vector<GroundTruth> objects = {{1, {0, 0, 1, 1}, false}};
  const std::vector<Box> boxes = {{kNan, 0, 1, 1}, {kNan, kNan, kNan, kNan}};
  const BoxMatches matches = MatchBoxes(objects, boxes, std::nullopt, {});
  EXPECT_EQ(matches.object[1], -1);
  EXPECT_EQ(matches.overlap[1], 0);
}

TEST(BoxNms, OrdersScoresBestFirst) {
  EXPECT_EQ(BestFirst(std::vector<float>{1, 3, 2, 3}), (std::vector<int>{1, 3, 2, 0}));
  EXPECT_EQ(BestFirst(std::vector<float>{1, kNan, 2, kNan}), (std::vector<int>{1, 3, 2, 0}));
}

TEST(BoxNms, AgreesWithAPlainSearch) {
  Rng rng(Seed(), {3});
  for (int round = 0; round < 40; ++round) {
    const std::vector<Box> boxes = RandomBoxes(40, &rng);
    std::vector<float> scores;
    for (const double score : Apart(40, 0.01, &rng)) scores.push_back(static_cast<float>(score));
    const NmsRules rules{-0.1f, 0.4f, round % 2 ? 1.0f : 0.9f, round % 3 ? -1 : 12};
    // Whether each box stays is decided in the order of the scores.
    std::vector<int> left, kept;
    for (int i = 0; i < 40; ++i) {
      if (scores[i] > rules.min_score) left.push_back(i);
    }
    for (int64_t turn = 0; !left.empty() && (rules.top_k < 0 || turn < rules.top_k); ++turn) {
      size_t best = 0;
      for (size_t k = 1; k < left.size(); ++k) {
        if (scores[left[k]] > scores[left[best]]) best = k;
      }
      const int i = left[best];
      left.erase(left.begin() + static_cast<int64_t>(best));
      bool stays = true;
      for (const int j : kept) stays &= !(Overlap(boxes[i], boxes[j]) > rules.threshold);
      if (stays) kept.push_back(i);
    }
    EXPECT_EQ(SuppressBoxes(boxes, scores, rules), kept);
  }
}

TEST(BoxNms, LowersItsThresholdByEta) {
  // Overlaps with the first box: 2/3 and 0.6.
  const std::vector<Box> boxes = {
      {0, 0, 0.5f, 0.5f}, {0.1f, 0, 0.6f, 0.5f}, {0, 0.125f, 0.5f, 0.625f}};
  const std::vector<float> scores = {3, 2, 1};
  NmsRules rules{0, 0.65f};
  EXPECT_EQ(SuppressBoxes(boxes, scores, rules), (std::vector<int>{0, 2}));
  rules.eta = 0.9f;  // 0.585 after the first box
  EXPECT_EQ(SuppressBoxes(boxes, scores, rules), (std::vector<int>{0}));
  rules.threshold = 0.7f;  // 0.63
  EXPECT_EQ(SuppressBoxes(boxes, scores, rules), (std::vector<int>{0, 2}));
}

TEST(BoxNms, KeepsNoMoreThanItIsAsked) {
  const std::vector<Box> boxes = {
      {0, 0, 0.5f, 0.5f}, {0.01f, 0, 0.5f, 0.5f}, {0.6f, 0, 0.8f, 0.5f}, {0.9f, 0, 1, 0.5f}};
  const std::vector<float> scores = {4, 3, 2, 1};
  NmsRules rules{0, 0.5f};
  EXPECT_EQ(SuppressBoxes(boxes, scores, rules), (std::vector<int>{0, 2, 3}));
  rules.keep = 2;
  EXPECT_EQ(SuppressBoxes(boxes, scores, rules), (std::vector<int>{0, 2}));
  rules.keep = 0;
  EXPECT_TRUE(SuppressBoxes(boxes, scores, rules).empty());
}

TEST(BoxNms, LeavesOutScoresUpToTheLeastAndThoseThatAreNotNumbers) {
  const std::vector<Box> boxes = {{0, 0, 0.1f, 0.1f}, {0.2f, 0, 0.3f, 0.1f}, {0.4f, 0, 0.5f, 0.1f}};
  EXPECT_EQ(SuppressBoxes(boxes, std::vector<float>{0.5f, kNan, 0.25f}, {0.25f}),
            (std::vector<int>{0}));
}

TEST(BoxNms, ChoosesExamplesWhateverTheirScore) {
  const std::vector<Box> boxes = {
      {0, 0, 0.1f, 0.1f}, {0, 0, 0.1f, 0.1f}, {0.4f, 0, 0.5f, 0.1f}, {0.6f, 0.6f, 0.601f, 0.601f}};
  const std::vector<float> scores = {-1, -2, -3, 5};
  EXPECT_EQ(SuppressExamples(boxes, scores, 0.5f, -1), (std::vector<int>{0, 2}));
  EXPECT_EQ(SuppressExamples(boxes, scores, 0.5f, 2), (std::vector<int>{0}));
  EXPECT_TRUE(SuppressExamples(boxes, scores, 0.5f, 0).empty());
}

TEST(ImageBox, IsInThePixelsOfTheImage) {
  const NamedImage image{"a", 100, 200};
  const PixelBox box = InPixels({-0.5f, 0.25f, 0.5f, 2}, image, nullptr);
  EXPECT_EQ(box.box, (Box{0, 25, 100, 100}));
  EXPECT_EQ(box.area, 101 * 76);
  caffe::ResizeParameter warp;
  warp.set_height(300);
  warp.set_width(300);
  EXPECT_EQ(InPixels({-0.5f, 0.25f, 0.5f, 2}, image, &warp).box, box.box);
}

TEST(ImageBox, LosesTheBordersOfThePaddedImage) {
  caffe::ResizeParameter resize;
  resize.set_resize_mode(caffe::ResizeParameter::FIT_LARGE_SIZE_AND_PAD);
  resize.set_height(300);
  resize.set_width(300);
  // A wide image fills the middle half of the height, a tall one that of the width.
  EXPECT_EQ(InPixels({0.25f, 0.25f, 0.5f, 0.5f}, {"a", 100, 200}, &resize).box,
            (Box{50, 0, 100, 50}));
  EXPECT_EQ(InPixels({0.25f, 0.25f, 0.5f, 0.5f}, {"a", 200, 100}, &resize).box,
            (Box{0, 50, 50, 100}));
}

TEST(ImageBox, IsOfTheGivenScaleWhereTheSmallSideFits) {
  caffe::ResizeParameter resize;
  resize.set_resize_mode(caffe::ResizeParameter::FIT_SMALL_SIZE);
  resize.set_height(300);
  resize.set_width(300);
  EXPECT_EQ(InPixels({0.5f, 0.5f, 1, 1}, {"a", 100, 200}, &resize).box, (Box{100, 50, 200, 100}));
  resize.set_height_scale(50);
  resize.set_width_scale(80);
  const PixelBox box = InPixels({0.5f, 0.5f, 1, 3}, {"a", 100, 200}, &resize);
  EXPECT_EQ(box.box, (Box{40, 25, 80, 100}));
  EXPECT_EQ(box.area, 40 * 75);
}

TEST(ImageBox, ReadsTheListOfImages) {
  const TempDir folder;
  const std::string path = folder / "sizes.txt";
  WriteFile(path, "000001 500 353\n\n000002 300 400\n");
  const std::vector<NamedImage> images = ReadNamedImages(path, "f");
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[1].name, "000002");
  EXPECT_EQ(images[1].height, 300);
  EXPECT_EQ(images[1].width, 400);
  WriteFile(path, "000001 500 353\n000002 300\n");
  EXPECT_CONTAINS(ErrorOf([&] { ReadNamedImages(path, "f"); }), "sizes.txt:2: expected");
  WriteFile(path, "");
  EXPECT_CONTAINS(ErrorOf([&] { ReadNamedImages(path, "f"); }), "has no lines");
  EXPECT_CONTAINS(ErrorOf([&] { ReadNamedImages(folder / "none", "f"); }), "none");
}

TEST(GroundTruth, IsReadByImage) {
  const float rows[] = {1,  3,  0,  0.1f, 0.2f, 0.3f, 0.4f, 0,   //
                        -1, -1, -1, -1,   -1,   -1,   -1,   -1,  //
                        0,  2,  0,  0,    0,    1,    1,    1,   //
                        1,  1,  0,  0,    0,    1,    1,    0};
  const auto all = ReadGroundTruth(rows, 4, {4, 0, true, 2});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all.at(0).at(0).difficult);
  ASSERT_EQ(all.at(1).size(), 2u);
  EXPECT_EQ(all.at(1)[0].label, 3);
  EXPECT_EQ(all.at(1)[0].box, (Box{0.1f, 0.2f, 0.3f, 0.4f}));
  EXPECT_EQ(ReadGroundTruth(rows, 4, {4, 0, false, 2}).count(0), 0u);
}

TEST(GroundTruth, NamesTheRowThatIsNotValid) {
  const auto complaint = [](float image, float label) {
    const float row[] = {image, label, 0, 0, 0, 1, 1, 0};
    return ErrorOf([&] { ReadGroundTruth(row, 1, {4, 0, true, 2}); });
  };
  EXPECT_CONTAINS(complaint(2, 1), "row 0: image 2, expected 0 to 1");
  EXPECT_CONTAINS(complaint(-2, 1), "image -2");
  EXPECT_CONTAINS(complaint(kNan, 1), "image nan is not a whole number");
  EXPECT_CONTAINS(complaint(0, 4), "label 4, expected less than num_classes: 4");
  EXPECT_CONTAINS(complaint(0, -1), "label -1");
  EXPECT_CONTAINS(complaint(0, 0), "label 0 is that of the background");
  EXPECT_CONTAINS(complaint(0, kNan), "label nan");
}

TEST(Detections, AreReadByImageAndLabel) {
  std::vector<float> rows;
  Detection{1, 2, 0.5f, {0, 0, 1, 1}}.AppendTo(&rows);
  Detection{0, -1, -1, {-1, -1, -1, -1}}.AppendTo(&rows);
  Detection{1, 2, 0.25f, {0, 0, 0.5f, 1}}.AppendTo(&rows);
  const DetectionsOfImages found = ReadDetections(rows.data(), 3, 0);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found.at(1).at(2).size(), 2u);
  EXPECT_EQ(found.at(1).at(2)[1].score, 0.25f);
  EXPECT_EQ(found.at(1).at(2)[1].box, (Box{0, 0, 0.5f, 1}));
  rows[1] = 0;
  EXPECT_CONTAINS(ErrorOf([&] { ReadDetections(rows.data(), 3, 0); }), "row 0: label 0");
  rows[0] = kNan;
  EXPECT_CONTAINS(ErrorOf([&] { ReadDetections(rows.data(), 3, 0); }), "image nan");
}

}  // namespace
}  // namespace millrace::test
