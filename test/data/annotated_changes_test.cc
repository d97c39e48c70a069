// The steps by which AnnotatedData layers change images and boxes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "contrib/annotated/box_sampler.h"
#include "contrib/annotated/distortion.h"
#include "contrib/annotated/object.h"
#include "data/images/color.h"
#include "data/images/noise.h"
#include "data/images/resize_policy.h"
#include "proto/parse.h"
#include "test/support/support.h"

namespace millrace {
namespace {

template <typename Message>
Message Of(const std::string& text) {
  Message message;
  if (!text.empty()) ParseText(text, "param", &message, nullptr);
  return message;
}

template <typename Body>
std::string FieldErrorOf(Body body) {
  try {
    body();
  } catch (const FieldError& error) {
    return error.field() + ": " + error.what();
  }
  return "";
}

Image Random(int channels, int height, int width, Rng* rng) {
  Image image{channels, height, width, std::vector<uint8_t>(channels * height * width)};
  for (uint8_t& value : image.values) value = static_cast<uint8_t>(rng->Next());
  return image;
}

// ---- Boxes ------------------------------------------------------------------

TEST(Box, HasOverlapsAndCoverages) {
  const Box a{0, 0, 0.5f, 1}, b{0.25f, 0.5f, 1, 1}, apart{0.75f, 0, 1, 0.25f};
  EXPECT_FLOAT_EQ(Area(a), 0.5f);
  EXPECT_FLOAT_EQ(Area({0.5f, 0, 0.25f, 1}), 0);
  EXPECT_FLOAT_EQ(Overlap(a, b), 0.125f / (0.5f + 0.375f - 0.125f));
  EXPECT_FLOAT_EQ(CoverageOf(a, b), 0.25f);
  EXPECT_FLOAT_EQ(CoverageOf(b, a), 1.0f / 3);
  EXPECT_EQ(Overlap(a, apart), 0);
  EXPECT_EQ(CoverageOf(a, apart), 0);
}

TEST(Box, IsProjectedIntoAFrameAndClipped) {
  Box projected;
  ASSERT_TRUE(Project({0.5f, 0, 1, 0.5f}, {0.25f, 0.125f, 0.75f, 0.75f}, &projected));
  EXPECT_FLOAT_EQ(projected.xmin, 0);
  EXPECT_FLOAT_EQ(projected.ymin, 0.25f);
  EXPECT_FLOAT_EQ(projected.xmax, 0.5f);
  EXPECT_FLOAT_EQ(projected.ymax, 1);
  EXPECT_FALSE(Project({0, 0, 0.5f, 0.5f}, {0.5f, 0, 1, 1}, &projected));
  EXPECT_FALSE(Project({0, 0, 1, 1}, {0.5f, 0.5f, 0.5f, 0.75f}, &projected));
}

TEST(Box, MustMeetTheConstraint) {
  const Box frame{0, 0, 0.5f, 0.5f}, in{0, 0, 0.9f, 0.9f}, out{0.2f, 0.2f, 1, 1};
  const auto centre = Of<caffe::EmitConstraint>("emit_type: CENTER");
  EXPECT_TRUE(MeetsConstraint(centre, frame, in));
  EXPECT_FALSE(MeetsConstraint(centre, frame, out));
  const auto overlap = Of<caffe::EmitConstraint>("emit_type: MIN_OVERLAP emit_overlap: 0.25");
  EXPECT_TRUE(MeetsConstraint(overlap, frame, in));  // 0.25 / 0.81
  EXPECT_FALSE(MeetsConstraint(overlap, frame, out));
}

// ---- Samples ----------------------------------------------------------------

TEST(BoxSampler, DrawsBoxesOfTheScalesAndRatiosGiven) {
  const BoxSampler sampler(Of<caffe::AnnotatedDataParameter>(
      "batch_sampler { sampler { min_scale: 0.3 max_scale: 0.9 min_aspect_ratio: 0.5"
      " max_aspect_ratio: 2 } max_trials: 500 }"));
  Rng rng(test::Seed(), {1});
  const std::vector<Box> boxes = sampler.Sample({}, &rng);
  ASSERT_EQ(boxes.size(), 500u);
  float least = 1, most = 0;
  for (const Box& box : boxes) {
    EXPECT_GE(std::min(box.xmin, box.ymin), 0);
    EXPECT_LE(std::max(box.xmax, box.ymax), 1.00001f);
    const float width = box.xmax - box.xmin, height = box.ymax - box.ymin;
    const float scale = std::sqrt(width * height);
    least = std::min(least, scale), most = std::max(most, scale);
    EXPECT_GE(width / height, 0.499f);
    EXPECT_LE(width / height, 2.001f);
  }
  EXPECT_GE(least, 0.299f);
  EXPECT_LE(most, 0.901f);
  EXPECT_LT(least, 0.35f);
  EXPECT_GT(most, 0.85f);
}

TEST(BoxSampler, KeepsBoxesThatMeetTheConstraintForSomeObject) {
  const std::vector<Object> objects = {{1, 0, {0.1f, 0.1f, 0.4f, 0.5f}, false},
                                       {2, 0, {0.6f, 0.5f, 0.9f, 0.9f}, false}};
  const std::string scales = "sampler { min_scale: 0.2 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }";
  const std::map<std::string, std::function<bool(const Box&, const Box&)>> constraints = {
      {"min_jaccard_overlap: 0.3",
       [](const Box& box, const Box& object) { return Overlap(box, object) >= 0.3f; }},
      {"max_jaccard_overlap: 0.1",
       [](const Box& box, const Box& object) { return Overlap(box, object) <= 0.1f; }},
      {"min_sample_coverage: 0.4",
       [](const Box& box, const Box& object) { return CoverageOf(box, object) >= 0.4f; }},
      {"min_object_coverage: 0.9",
       [](const Box& box, const Box& object) { return CoverageOf(object, box) >= 0.9f; }},
      {"min_object_coverage: 0.5 max_jaccard_overlap: 0.3", [](const Box& box, const Box& object) {
         return CoverageOf(object, box) >= 0.5f && Overlap(box, object) <= 0.3f;
       }}};
  for (const auto& [text, meets] : constraints) {
    SCOPED_TRACE(text);
    const BoxSampler sampler(Of<caffe::AnnotatedDataParameter>(
        "batch_sampler { " + scales + " sample_constraint { " + text + " } max_trials: 2000 }"));
    Rng rng(test::Seed(), {2});
    const std::vector<Box> boxes = sampler.Sample(objects, &rng);
    EXPECT_GT(boxes.size(), 5u);
    EXPECT_LT(boxes.size(), 2000u);
    for (const Box& box : boxes) {
      EXPECT_TRUE(meets(box, objects[0].box) || meets(box, objects[1].box));
    }
  }
}

TEST(BoxSampler, StopsAtMaxSampleAndTakesAllSamplersInTurn) {
  const BoxSampler sampler(Of<caffe::AnnotatedDataParameter>(
      "batch_sampler { max_sample: 1 max_trials: 1 }"
      "batch_sampler { sampler { min_scale: 0.5 max_scale: 0.5 } max_sample: 3 }"
      "batch_sampler { use_original_image: false max_trials: 5 }"
      "batch_sampler { sample_constraint { min_jaccard_overlap: 0.1 } }"));
  Rng rng(test::Seed(), {3});
  const std::vector<Box> boxes = sampler.Sample({}, &rng);  // no object meets the last one
  ASSERT_EQ(boxes.size(), 4u);
  EXPECT_EQ(Area(boxes[0]), 1);
  for (int i = 1; i < 4; ++i) EXPECT_FLOAT_EQ(Area(boxes[i]), 0.25f);
}

TEST(BoxSampler, RefusesBadSettings) {
  const auto error = [](const std::string& sampler) {
    return FieldErrorOf([&] {
      BoxSampler(Of<caffe::AnnotatedDataParameter>("batch_sampler {} batch_sampler { sampler { " +
                                                   sampler + " } }"));
    });
  };
  const std::string field = "annotated_data_param.batch_sampler[1].sampler.";
  EXPECT_EQ(error("min_scale: 0.1"), "");
  EXPECT_CONTAINS(error("min_scale: 0"), field + "min_scale: 0 given");
  EXPECT_CONTAINS(error("min_scale: 0.5 max_scale: 0.3"), field + "min_scale: 0.5 given");
  EXPECT_CONTAINS(error("max_scale: 1.5"), "max_scale 1.5, expected");
  EXPECT_CONTAINS(error("min_aspect_ratio: 0"), field + "min_aspect_ratio: 0 given");
  EXPECT_CONTAINS(error("max_aspect_ratio: 0.5"), "expected 0 < min_aspect_ratio");
}

// ---- Colours ----------------------------------------------------------------

Image Distorted(const std::string& param, const Image& image, uint64_t seed) {
  Image changed = image;
  Rng rng(seed, {4});
  Distortion(Of<caffe::DistortionParameter>(param), image.channels).Apply(&rng, &changed);
  return changed;
}

TEST(Distortion, ChangesNothingWithoutProbabilities) {
  Rng rng(test::Seed(), {5});
  const Image image = Random(3, 6, 5, &rng);
  EXPECT_EQ(Distorted("brightness_delta: 50 hue_delta: 50", image, 1).values, image.values);
}

TEST(Distortion, AddsABrightness) {
  const Image image{1, 1, 3, {0, 100, 255}};
  int least = 0, most = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Image changed = Distorted("brightness_prob: 1 brightness_delta: 32", image, seed);
    const int delta = changed.values[1] - 100;
    least = std::min(least, delta), most = std::max(most, delta);
    EXPECT_EQ(changed.values[0], std::max(0, delta));
    EXPECT_EQ(changed.values[2], 255 + std::min(0, delta));
  }
  EXPECT_GE(least, -32);
  EXPECT_LE(most, 32);
  EXPECT_LT(least, -25);
  EXPECT_GT(most, 25);
}

TEST(Distortion, MultipliesTheContrast) {
  const Image image{1, 1, 3, {0, 50, 100}};
  std::set<int> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Image changed =
        Distorted("contrast_prob: 1 contrast_lower: 0.5 contrast_upper: 1.5", image, seed);
    EXPECT_EQ(changed.values[0], 0);
    EXPECT_NEAR(changed.values[2], 2 * changed.values[1], 1);
    seen.insert(changed.values[2]);
  }
  EXPECT_GE(*seen.begin(), 50);
  EXPECT_LE(*seen.rbegin(), 150);
  EXPECT_GT(seen.size(), 50u);
}

TEST(Distortion, MovesTheHueOrTheSaturationOnly) {
  Image image{3, 1, 1, {60, 120, 100}};  // hue, saturation, value
  HsvToBgr(&image);
  std::set<int> hues, saturations;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Image hue = Distorted("hue_prob: 1 hue_delta: 18", image, seed);
    BgrToHsv(&hue);
    hues.insert(hue.values[0]);
    EXPECT_NEAR(hue.values[1], 120, 3);
    EXPECT_NEAR(hue.values[2], 100, 1);
    Image saturation =
        Distorted("saturation_prob: 1 saturation_lower: 0.5 saturation_upper: 1.5", image, seed);
    BgrToHsv(&saturation);
    saturations.insert(saturation.values[1]);
    EXPECT_NEAR(saturation.values[0], 60, 2);
    EXPECT_NEAR(saturation.values[2], 100, 1);
  }
  EXPECT_GE(*hues.begin(), 60 - 20);
  EXPECT_LE(*hues.rbegin(), 60 + 20);
  EXPECT_GT(hues.size(), 20u);
  EXPECT_GE(*saturations.begin(), 57);
  EXPECT_LE(*saturations.rbegin(), 183);
  EXPECT_GT(saturations.size(), 30u);
}

TEST(Distortion, ReordersChannels) {
  const Image image{3, 1, 2, {1, 1, 2, 2, 3, 3}};
  std::set<std::vector<uint8_t>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    seen.insert(Distorted("random_order_prob: 1", image, seed).values);
  }
  EXPECT_EQ(seen.size(), 6u);
  for (const std::vector<uint8_t>& each : seen) {
    EXPECT_EQ(each[0], each[1]);
    EXPECT_EQ(each[0] + each[2] + each[4], 6);
  }
}

TEST(Distortion, HasEachChangeWithItsProbability) {
  const Image image{1, 1, 1, {100}};
  int changed = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    changed += Distorted("contrast_prob: 0.25 contrast_lower: 0.2 contrast_upper: 0.2", image, seed)
                   .values[0] == 20;
  }
  EXPECT_NEAR(changed, 500, 100);
}

TEST(Distortion, RefusesBadSettings) {
  const auto error = [](const std::string& param, int channels = 3) {
    return FieldErrorOf([&] { Distortion(Of<caffe::DistortionParameter>(param), channels); });
  };
  const std::string field = "transform_param.distort_param.";
  EXPECT_EQ(error("brightness_delta: -1"), "");  // has no probability
  EXPECT_CONTAINS(error("brightness_prob: 1 brightness_delta: -1"), field + "brightness_delta: -1");
  EXPECT_CONTAINS(error("hue_prob: 1 hue_delta: -1"), field + "hue_delta: -1");
  EXPECT_CONTAINS(error("contrast_prob: 1 contrast_lower: 2 contrast_upper: 1"),
                  field + "contrast_lower: 2 given and the upper bound 1");
  EXPECT_CONTAINS(error("saturation_prob: 1 saturation_lower: -1"), field + "saturation_lower: -1");
  EXPECT_CONTAINS(error("hue_prob: 1", 1), "images have 1 channels, expected 3");
  EXPECT_CONTAINS(error("random_order_prob: 0.1", 4), "images have 4 channels");
}

// ---- Noise ------------------------------------------------------------------

Image WithNoise(const std::string& param, Image image) {
  Rng rng(test::Seed(), {6});
  Noise(Of<caffe::NoiseParameter>(param), image.channels).Apply(&rng, &image);
  return image;
}

TEST(Noise, InvertsAfterItPosterizes) {
  const Image image{1, 1, 5, {0, 63, 64, 191, 255}};
  EXPECT_EQ(WithNoise("inverse: true", image).values, (std::vector<uint8_t>{255, 192, 191, 64, 0}));
  EXPECT_EQ(WithNoise("posterize: true", image).values,
            (std::vector<uint8_t>{32, 32, 96, 160, 224}));
  EXPECT_EQ(WithNoise("posterize: true inverse: true", image).values,
            (std::vector<uint8_t>{223, 223, 159, 95, 31}));
}

TEST(Noise, PutsSaltAndPepperOnWholePixels) {
  const Image image{3, 20, 20, std::vector<uint8_t>(1200, 100)};
  const Image changed = WithNoise(
      "saltpepper: true saltpepper_param { fraction: 0.1 value: 1 value: 2 value: 3 }", image);
  int pixels = 0;
  for (int i = 0; i < 400; ++i) {
    if (changed.values[i] == 100) continue;
    ++pixels;
    EXPECT_EQ(changed.values[i], 1);
    EXPECT_EQ(changed.values[400 + i], 2);
    EXPECT_EQ(changed.values[800 + i], 3);
  }
  EXPECT_LE(pixels, 40);
  EXPECT_GE(pixels, 25);  // some are drawn twice
  const Image one = WithNoise("saltpepper: true saltpepper_param { fraction: 1 value: 9 }", image);
  EXPECT_EQ(std::count(one.values.begin(), one.values.end(), 9) % 3, 0);
}

TEST(Noise, CompressesAsJpeg) {
  Rng rng(test::Seed(), {7});
  for (const int channels : {1, 3}) {
    const Image image = Random(channels, 16, 16, &rng);
    const auto difference = [&](const Image& changed) {
      EXPECT_EQ(changed.channels, channels);
      int64_t sum = 0;
      for (size_t i = 0; i < image.values.size(); ++i) {
        sum += std::abs(image.values[i] - changed.values[i]);
      }
      return sum;
    };
    EXPECT_EQ(difference(WithNoise("", image)), 0);
    EXPECT_LT(difference(WithNoise("jpeg: 100", image)), difference(WithNoise("jpeg: 5", image)));
  }
}

TEST(Noise, RefusesWhatIsNotThere) {
  const auto error = [](const std::string& param, int channels = 3) {
    return FieldErrorOf([&] { Noise(Of<caffe::NoiseParameter>(param), channels); });
  };
  const std::string field = "transform_param.noise_param.";
  EXPECT_CONTAINS(error("clahe: true"), field + "clahe: true given");
  EXPECT_CONTAINS(error("convert_to_lab: true"), field + "convert_to_lab: true given");
  EXPECT_CONTAINS(error("decolorize: true", 1), "images have 1 channels");
  EXPECT_CONTAINS(error("convert_to_hsv: true", 4), "images have 4 channels");
  EXPECT_CONTAINS(error("hist_eq: true", 4), "expected 1 or 3");
  EXPECT_CONTAINS(error("jpeg: 50", 2), "expected 1 or 3");
  EXPECT_CONTAINS(error("jpeg: 101"), "at most 100");
  EXPECT_CONTAINS(error("saltpepper: true"), field + "saltpepper_param.value: is given 0 times");
  EXPECT_CONTAINS(error("saltpepper: true saltpepper_param { value: 1 fraction: 2 }"),
                  field + "saltpepper_param.fraction: 2 given");
}

// ---- Sizes ------------------------------------------------------------------

ResizePolicy Policy(const std::string& param, int channels = 1) {
  return ResizePolicy(Of<caffe::ResizeParameter>(param), channels);
}

TEST(ResizePolicy, GivesTheSizesOfEachMode) {
  Rng rng(test::Seed(), {8});
  struct Case {
    std::string param;
    int height, width, to_height, to_width;
  };
  for (const Case& each :
       {Case{"height: 6 width: 8", 10, 30, 6, 8},
        Case{"resize_mode: FIT_LARGE_SIZE_AND_PAD height: 6 width: 8", 10, 30, 6, 8},
        Case{"resize_mode: FIT_SMALL_SIZE height: 6 width: 8", 10, 30, 6, 18},
        Case{"resize_mode: FIT_SMALL_SIZE height: 6 width: 8", 40, 20, 16, 8}}) {
    ResizePolicy policy = Policy(each.param);
    const ResizePolicy::Size size = policy.SizeOf(each.height, each.width);
    EXPECT_EQ(size.height, each.to_height);
    EXPECT_EQ(size.width, each.to_width);
    Image image = Random(1, each.height, each.width, &rng);
    policy.Apply(&rng, &image);
    EXPECT_EQ(image.height, each.to_height);
    EXPECT_EQ(image.width, each.to_width);
  }
}

TEST(ResizePolicy, PadsWithValuesOrPixels) {
  const Image image{1, 1, 4, {10, 20, 30, 40}};
  const auto padded = [&](const std::string& param) {
    Image changed = image;
    Rng rng(1, {9});
    Policy("resize_mode: FIT_LARGE_SIZE_AND_PAD interp_mode: NEAREST height: 4 width: 4 " + param)
        .Apply(&rng, &changed);
    return changed.values;
  };
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(padded("pad_value: 7"), (Bytes{7, 7, 7, 7, 10, 20, 30, 40, 7, 7, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(padded("pad_mode: REPEAT_NEAREST"),
            (Bytes{10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40}));
  Image tall{1, 4, 2, {1, 2, 3, 4, 5, 6, 7, 8}};
  Rng rng(1, {9});
  Policy("resize_mode: FIT_LARGE_SIZE_AND_PAD pad_mode: MIRRORED height: 4 width: 6")
      .Apply(&rng, &tall);
  EXPECT_EQ(tall.values,
            (Bytes{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 5, 6, 5, 6, 5, 6, 7, 8, 7, 8, 7, 8}));
}

TEST(ResizePolicy, DrawsEachWayOfInterpolation) {
  Rng rng(test::Seed(), {10});
  const Image image = Random(1, 9, 11, &rng);
  ResizePolicy policy = Policy(
      "height: 5 width: 7 interp_mode: LINEAR interp_mode: AREA interp_mode: NEAREST"
      " interp_mode: CUBIC interp_mode: LANCZOS4");
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 100; ++i) {
    Image changed = image;
    policy.Apply(&rng, &changed);
    seen.insert(changed.values);
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(ResizePolicy, GivesBoxesInUnitsOfAScale) {
  const ResizePolicy policy =
      Policy("resize_mode: FIT_SMALL_SIZE height: 100 width: 100 height_scale: 50 width_scale: 25");
  // An image of 200 x 400 becomes 100 x 200.
  const Box box = policy.Extrapolate({0.1f, 0.2f, 0.5f, 1}, {0, 0, 0.5f, 1}, 200, 400);
  EXPECT_FLOAT_EQ(box.xmin, 0.4f);
  EXPECT_FLOAT_EQ(box.ymin, 0.4f);
  EXPECT_FLOAT_EQ(box.xmax, 2);
  EXPECT_FLOAT_EQ(box.ymax, 2);
  EXPECT_CONTAINS(test::ErrorOf([&] {
                    policy.Extrapolate({0, 0, 1, 1}, {0, 0, 0.1f, 1}, 200, 400);
                  }),
                  "has a crop of 100 x 20, expected at least height_scale x width_scale, 50 x 25");
}

TEST(ResizePolicy, RefusesBadSettings) {
  const auto error = [](const std::string& param) {
    return FieldErrorOf([&] { Policy(param, 3); });
  };
  EXPECT_EQ(error("height: 1 width: 1 pad_value: 1 pad_value: 2 pad_value: 3"), "");
  EXPECT_CONTAINS(error("width: 3"), "transform_param.resize_param.height: 0 given or missing");
  EXPECT_CONTAINS(error("height: 3"), "transform_param.resize_param.width: 0 given or missing");
  EXPECT_CONTAINS(error("height: 3 width: 99999"), "expected 1 to 16384");
  EXPECT_CONTAINS(error("height: 3 width: 3 pad_value: 1 pad_value: 2"), "is given 2 times");
}

}  // namespace
}  // namespace millrace
