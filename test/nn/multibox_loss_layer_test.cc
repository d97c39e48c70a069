#include <cmath>
#include <limits>

#include "proto/parse.h"
#include "test/nn/loss_support.h"
#include "test/nn/multibox_reference.h"

namespace millrace::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string MultiboxLossText(const std::string& param, const std::string& rest = "") {
  return "name: 'loss' type: 'MultiBoxLoss' multibox_loss_param { " + param + " } " + rest;
}

Array RandomBox(Rng* rng) {
  const Array v = Uniform(4, 0, 1, rng);
  const double x = v[0] * 0.8 - 0.1, y = v[1] * 0.8 - 0.1;
  return {x, y, x + 0.15 + 0.4 * v[2], y + 0.15 + 0.4 * v[3]};
}

Array Row(int image, int label, const Array& box, bool difficult = false) {
  return {double(image), double(label), 0, box[0], box[1], box[2], box[3], difficult ? 1.0 : 0.0};
}

void Append(const Array& more, Array* values) {
  values->insert(values->end(), more.begin(), more.end());
}

void RoundToFloat(Array* values) {
  for (double& value : *values) value = static_cast<float>(value);
}

MultiBoxInputs RandomInputs(int images, int priors, int classes, int location_classes, Rng* rng) {
  MultiBoxInputs in;
  in.images = images;
  in.priors = priors;
  in.locations = Uniform(int64_t{4} * images * priors * location_classes, -1.5, 1.5, rng);
  in.confidences = Uniform(int64_t{1} * images * priors * classes, -2, 2, rng);
  for (int i = 0; i < priors; ++i) Append(RandomBox(rng), &in.prior_values);
  for (int i = 0; i < priors; ++i) Append(Uniform(4, 0.1, 0.5, rng), &in.prior_values);
  // The first image has no object.
  Append(Array(8, -1.0), &in.truth);
  for (int n = 1; n < images; ++n) {
    for (int j = 0; j < 2 + n; ++j) {
      const int label = 1 + static_cast<int>(rng->Below(classes - 1));
      Append(Row(n, label, RandomBox(rng), rng->Below(4) == 0), &in.truth);
    }
  }
  for (Array* each : {&in.locations, &in.confidences, &in.prior_values, &in.truth}) {
    RoundToFloat(each);
  }
  return in;
}

std::unique_ptr<LayerRunner> RunnerFor(const std::string& text, const MultiBoxInputs& in) {
  const auto per_image = [&](const Array& values) {
    return static_cast<int64_t>(values.size()) / in.images;
  };
  return RunnerOf(text, {{{in.images, per_image(in.locations)}, in.locations},
                         {{in.images, per_image(in.confidences)}, in.confidences},
                         {{1, 2, int64_t{4} * in.priors}, in.prior_values},
                         {{1, 1, static_cast<int64_t>(in.truth.size()) / 8, 8}, in.truth}});
}

void ExpectAgrees(const std::string& text, const MultiBoxInputs& in) {
  SCOPED_TRACE(text);
  caffe::LayerParameter param;
  ParseText(text, "layer.prototxt", &param, nullptr);
  const MultiBoxResult expected = PlainMultiBoxLoss(param, in);
  const auto runner = RunnerFor(text, in);
  EXPECT_EQ(runner->top().shape(), Shape{});
  EXPECT_EQ(Diff({expected.loss}, runner->Output()), "");
  // What was there is overwritten.
  SetDiff(Array(in.locations.size(), 3.0), &runner->bottom(0));
  SetDiff(Array(in.confidences.size(), 3.0), &runner->bottom(1));
  runner->Backward({2});
  EXPECT_EQ(Diff(Scaled(expected.location_diff, 2), GetDiff(runner->bottom(0))), "");
  EXPECT_EQ(Diff(Scaled(expected.confidence_diff, 2), GetDiff(runner->bottom(1))), "");
}

TEST(MultiBoxLossLayer, AgreesWithPlainLoops) {
  Rng rng(Seed(), {1});
  const std::vector<std::vector<std::string>> choices = {
      {"", "match_type: BIPARTITE"},
      {"", "code_type: CENTER_SIZE", "code_type: CORNER_SIZE"},
      {"", "loc_loss_type: L2 loc_weight: 0.7"},
      {"", "conf_loss_type: LOGISTIC"},
      {"overlap_threshold: 0.35", "use_prior_for_matching: false overlap_threshold: 0.3"},
      {"", "encode_variance_in_target: true"},
      {"", "bp_inside: true"},
      {"", "ignore_cross_boundary_bbox: true"},
      {"", "use_difficult_gt: false"},
      {"mining_type: NONE", "mining_type: NONE share_location: false",
       "mining_type: MAX_NEGATIVE neg_pos_ratio: 1.5 neg_overlap: 0.4",
       "mining_type: HARD_EXAMPLE sample_size: 6",
       "mining_type: MAX_NEGATIVE nms_param { nms_threshold: 0.3 top_k: 15 }",
       "mining_type: HARD_EXAMPLE sample_size: 9 use_prior_for_nms: true"
       " nms_param { nms_threshold: 0.4 top_k: 12 }"}};
  for (int round = 0; round < 120; ++round) {
    std::string param = "num_classes: 4";
    for (const auto& choice : choices) param += " " + choice[rng.Below(choice.size())];
    const bool shared = param.find("share_location") == std::string::npos;
    ExpectAgrees(MultiboxLossText(param), RandomInputs(3, 20, 4, shared ? 1 : 4, &rng));
  }
}

TEST(MultiBoxLossLayer, DividesAsTheNormalizationSays) {
  Rng rng(Seed(), {2});
  const MultiBoxInputs in = RandomInputs(3, 12, 4, 1, &rng);
  for (const char* mode : {"VALID", "FULL", "BATCH_SIZE", "NONE"}) {
    ExpectAgrees(
        MultiboxLossText("num_classes: 4", StrCat("loss_param { normalization: ", mode, " }")), in);
  }
  const auto legacy =
      RunnerFor(MultiboxLossText("num_classes: 4", "loss_param { normalize: false }"), in);
  const auto batch =
      RunnerFor(MultiboxLossText("num_classes: 4", "loss_param { normalization: BATCH_SIZE }"), in);
  EXPECT_EQ(legacy->Output(), batch->Output());
}

TEST(MultiBoxLossLayer, MapsAllObjectsToOneClass) {
  Rng rng(Seed(), {3});
  MultiBoxInputs in = RandomInputs(3, 12, 2, 1, &rng);
  for (size_t row = 0; row < in.truth.size() / 8; ++row) {
    if (in.truth[8 * row] >= 0) in.truth[8 * row + 1] = 5 + static_cast<double>(row);
  }
  for (const char* mining : {"NONE", "MAX_NEGATIVE", "HARD_EXAMPLE"}) {
    ExpectAgrees(MultiboxLossText(
                     StrCat("num_classes: 2 map_object_to_agnostic: true mining_type: ", mining)),
                 in);
  }
}

// All negatives are chosen, and matches do not depend on what is changed.
TEST(MultiBoxLossLayer, HasTheDerivativesOfItsLoss) {
  Rng rng(Seed(), {4});
  for (const char* param :
       {"mining_type: NONE", "mining_type: NONE share_location: false code_type: CENTER_SIZE",
        "neg_pos_ratio: 1000 neg_overlap: 2 loc_loss_type: L2 code_type: CORNER_SIZE",
        "neg_pos_ratio: 1000 conf_loss_type: LOGISTIC bp_inside: true loc_weight: 3"}) {
    SCOPED_TRACE(param);
    const bool shared = std::string(param).find("share_location") == std::string::npos;
    const auto runner =
        RunnerFor(MultiboxLossText(StrCat("num_classes: 3 overlap_threshold: 0.3 ", param)),
                  RandomInputs(2, 10, 3, shared ? 1 : 3, &rng));
    EXPECT_EQ(runner->CheckGradients(), "");
  }
}

// Two priors, of which the first is on the object of label 1.
MultiBoxInputs Simple(const Array& truth) {
  MultiBoxInputs in;
  in.images = 1;
  in.priors = 2;
  in.locations = Array(8, 0.0);
  in.confidences = {0, 0, 0, 0, 0, 0};
  in.prior_values = {0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  in.truth = truth;
  return in;
}

TEST(MultiBoxLossLayer, CountsPositivesAndTheirShareOfNegatives) {
  const auto runner =
      RunnerFor(MultiboxLossText("num_classes: 3"), Simple(Row(0, 1, {0, 0, 0.5, 0.5})));
  // One object, one negative, and locations without an error.
  EXPECT_NEAR(runner->Output()[0], 2 * std::log(3.0), 1e-6);
}

TEST(MultiBoxLossLayer, IsZeroWithoutObjectsUnlessAllPriorsCount) {
  const Array none(8, -1.0);
  const auto mining = RunnerFor(MultiboxLossText("num_classes: 3"), Simple(none));
  EXPECT_EQ(mining->Output(), Array{0});
  mining->Backward({1});
  EXPECT_EQ(GetDiff(mining->bottom(0)), Array(8, 0.0));
  EXPECT_EQ(GetDiff(mining->bottom(1)), Array(6, 0.0));
  const auto all = RunnerFor(MultiboxLossText("num_classes: 3 mining_type: NONE"), Simple(none));
  EXPECT_NEAR(all->Output()[0], 2 * std::log(3.0), 1e-6);  // divided by 1 in place of 0 matches
}

TEST(MultiBoxLossLayer, CountsNothingOfAnImageWhoseObjectsOverlapNoPrior) {
  const auto runner =
      RunnerFor(MultiboxLossText("num_classes: 3"), Simple(Row(0, 1, {0.6, 0, 0.9, 0.4})));
  EXPECT_EQ(runner->Output(), Array{0});
}

TEST(MultiBoxLossLayer, LeavesOutDifficultObjects) {
  const Array truth = Row(0, 1, {0, 0, 0.5, 0.5}, true);
  EXPECT_EQ(RunnerFor(MultiboxLossText("num_classes: 3 use_difficult_gt: false"), Simple(truth))
                ->Output(),
            Array{0});
  EXPECT_GT(RunnerFor(MultiboxLossText("num_classes: 3"), Simple(truth))->Output()[0], 1);
}

TEST(MultiBoxLossLayer, ShowsScoresThatAreNotNumbers) {
  for (const char* mining : {"NONE", "MAX_NEGATIVE", "HARD_EXAMPLE"}) {
    MultiBoxInputs in = Simple(Row(0, 1, {0, 0, 0.5, 0.5}));
    in.confidences[4] = kNan;  // of the negative
    const auto runner =
        RunnerFor(MultiboxLossText(StrCat("num_classes: 3 mining_type: ", mining)), in);
    EXPECT_TRUE(std::isnan(runner->Output()[0])) << mining;
    runner->Backward({1});
    EXPECT_FALSE(std::isnan(GetDiff(runner->bottom(1))[0])) << mining;
    EXPECT_TRUE(std::isnan(GetDiff(runner->bottom(1))[3])) << mining;
  }
  MultiBoxInputs in = Simple(Row(0, 1, {0, 0, 0.5, 0.5}));
  in.locations[0] = kNan;
  for (const char* matching : {"true", "false"}) {
    const auto runner = RunnerFor(
        MultiboxLossText(StrCat("num_classes: 3 use_prior_for_matching: ", matching)), in);
    EXPECT_NO_THROW(runner->Forward());
  }
}

TEST(MultiBoxLossLayer, LeavesOutWhatIsNotToBePropagated) {
  MultiBoxInputs in = Simple(Row(0, 1, {0, 0, 0.5, 0.5}));
  in.locations[0] = 3;  // |d| - 1/2
  const auto loss = [&](const std::string& flags) {
    return RunnerFor(MultiboxLossText("num_classes: 3", flags), in)->Output()[0];
  };
  const double conf = 2 * std::log(3.0);
  EXPECT_NEAR(loss(""), conf + 2.5, 1e-5);
  const std::string labels = " propagate_down: false propagate_down: false";
  EXPECT_NEAR(loss("propagate_down: true propagate_down: false" + labels), 2.5, 1e-5);
  EXPECT_NEAR(loss("propagate_down: false propagate_down: true" + labels), conf, 1e-5);
}

TEST(MultiBoxLossLayer, ChoosesNothingByANmsParamWithoutTopK) {
  const auto runner = RunnerFor(MultiboxLossText("num_classes: 3 nms_param { nms_threshold: 0.5 }"),
                                Simple(Row(0, 1, {0, 0, 0.5, 0.5})));
  EXPECT_NEAR(runner->Output()[0], std::log(3.0), 1e-6);
}

TEST(MultiBoxLossLayer, FollowsBottomsOfAnotherSize) {
  Rng rng(Seed(), {5});
  const std::string text = MultiboxLossText("num_classes: 4 overlap_threshold: 0.3");
  const auto runner = RunnerFor(text, RandomInputs(1, 3, 4, 1, &rng));
  runner->Forward();
  const MultiBoxInputs in = RandomInputs(3, 9, 4, 1, &rng);
  Resize(runner.get(), {{{3, 36}, in.locations},
                        {{3, 36}, in.confidences},
                        {{1, 2, 36}, in.prior_values},
                        {{1, 1, static_cast<int64_t>(in.truth.size()) / 8, 8}, in.truth}});
  caffe::LayerParameter param;
  ParseText(text, "layer.prototxt", &param, nullptr);
  EXPECT_EQ(Diff({PlainMultiBoxLoss(param, in).loss}, runner->Output()), "");
}

TEST(MultiBoxLossLayer, NamesTheGroundTruthThatIsNotValid) {
  const auto complaint = [](const Array& row) {
    const auto runner =
        RunnerFor(MultiboxLossText("num_classes: 3 code_type: CENTER_SIZE"), Simple(row));
    return ErrorOf([&] { runner->Forward(); });
  };
  const Array box = {0, 0, 0.5, 0.5};
  EXPECT_EQ(complaint(Row(0, 3, box)),
            "layer 'loss': ground truth row 0: label 3, expected less than num_classes: 3");
  EXPECT_CONTAINS(complaint(Row(0, 0, box)), "label 0 is that of the background");
  EXPECT_CONTAINS(complaint(Row(1, 1, box)), "image 1, expected 0 to 0");
}

TEST(MultiBoxLossLayer, RefusesShapesThatDoNotFit) {
  const auto complaint = [](const Shape& loc, const Shape& conf, const Shape& prior,
                            const Shape& truth) {
    return SetUpError(MultiboxLossText("num_classes: 3"), {loc, conf, prior, truth});
  };
  const Shape loc = {2, 20}, conf = {2, 15}, prior = {1, 2, 20}, truth = {1, 1, 1, 8};
  EXPECT_CONTAINS(complaint({2, 16}, conf, prior, truth),
                  "has shape 2 16 (32), expected 2 x 20: 4 values for each of 5 prior boxes");
  EXPECT_CONTAINS(complaint(loc, {2, 20}, prior, truth), "expected 2 x 15: 3 values");
  EXPECT_CONTAINS(complaint(loc, {1, 15}, prior, truth), "expected 2 x 15");
  EXPECT_CONTAINS(complaint(loc, conf, {1, 2, 18}, truth), "expected 1 x 2 x (4 per prior box)");
  EXPECT_CONTAINS(complaint(loc, conf, prior, {1, 1, 8, 1}), "expected 1 1 rows 8");
}

TEST(MultiBoxLossLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    return SetUpError(MultiboxLossText(param), {{1, 4}, {1, 3}, {1, 2, 4}, {1, 1, 1, 8}});
  };
  EXPECT_CONTAINS(complaint(""), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_classes: 3 background_label_id: 3"),
                  "3 given, expected less than num_classes: 3");
  EXPECT_CONTAINS(complaint("num_classes: 3 do_neg_mining: false"),
                  "false given, but mining_type is MAX_NEGATIVE");
  EXPECT_CONTAINS(complaint("num_classes: 3 share_location: false"),
                  "expected true or mining_type: NONE");
  EXPECT_CONTAINS(complaint("num_classes: 3 mining_type: HARD_EXAMPLE sample_size: 0"),
                  "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_classes: 3 map_object_to_agnostic: true"),
                  "expected num_classes: 2");
}

TEST(MultiBoxLossLayer, IsALossOfLocationsAndConfidences) {
  const auto runner = RunnerFor(MultiboxLossText("num_classes: 3"), Simple(Array(8, -1.0)));
  EXPECT_EQ(runner->layer().DefaultLossWeight(0), 1);
  EXPECT_TRUE(runner->layer().AllowBackward(0));
  EXPECT_TRUE(runner->layer().AllowBackward(1));
  EXPECT_FALSE(runner->layer().AllowBackward(2));
  EXPECT_FALSE(runner->layer().AllowBackward(3));
}

}  // namespace
}  // namespace millrace::test
