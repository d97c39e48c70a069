#include "data/transformer.h"

#include <set>

#include "base/rng.h"
#include "proto/parse.h"
#include "test/data/test_db.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr uint64_t kStream = 3;

caffe::Datum RandomDatum(Rng* rng, int channels, int height, int width, bool floats) {
  caffe::Datum datum = test::ByteDatum(0, channels, height, width);
  const int count = channels * height * width;
  for (int i = 0; i < count; ++i) {
    if (floats) {
      datum.add_float_data(rng->Gaussian());
    } else {
      (*datum.mutable_data())[i] = static_cast<char>(rng->Next());
    }
  }
  if (floats) datum.clear_data();
  return datum;
}

// Direct implementation of the formula in transformer.h, for one choice of crop and mirror.
std::vector<float> Naive(const caffe::TransformationParameter& param, const caffe::Datum& datum,
                         const std::vector<float>& mean_image, int y0, int x0, bool mirror) {
  const int crop = static_cast<int>(param.crop_size());
  const int crop_h = crop ? crop : static_cast<int>(param.crop_h());
  const int crop_w = crop ? crop : static_cast<int>(param.crop_w());
  const int height = crop_h ? crop_h : datum.height(), width = crop_w ? crop_w : datum.width();
  std::vector<float> out;
  for (int c = 0; c < datum.channels(); ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int from_x = mirror ? width - 1 - x : x;
        const int from = (c * datum.height() + y0 + y) * datum.width() + x0 + from_x;
        const float value = datum.data().empty() ? datum.float_data(from)
                                                 : static_cast<uint8_t>(datum.data()[from]);
        float mean = 0;
        if (param.mean_value_size() > 0) {
          mean = param.mean_value(param.mean_value_size() == 1 ? 0 : c);
        }
        if (!mean_image.empty()) mean = mean_image[from];
        out.push_back((value - mean) * param.scale());
      }
    }
  }
  return out;
}

std::vector<float> Apply(const caffe::TransformationParameter& param, caffe::Phase phase,
                         const caffe::Datum& datum, uint64_t item, uint64_t seed = test::Seed()) {
  const std::string bytes = datum.SerializeAsString();
  const DatumView view = ReadDatum("db", "key", bytes);
  Transformer transformer(param, phase, seed, kStream, view);
  std::vector<float> out(transformer.output().count());
  transformer.Apply(view, item, out.data());
  return out;
}

std::string WriteMean(const test::TempDir& folder, const std::vector<float>& values,
                      std::vector<int64_t> shape, bool legacy) {
  caffe::BlobProto mean;
  mean.mutable_data()->Add(values.begin(), values.end());
  if (legacy) {
    mean.set_num(1);
    mean.set_channels(shape[0]), mean.set_height(shape[1]), mean.set_width(shape[2]);
  } else {
    for (int64_t dim : shape) mean.mutable_shape()->add_dim(dim);
  }
  SaveBinary(folder / "mean.binaryproto", mean);
  return folder / "mean.binaryproto";
}

TEST(Transformer, ScalesBytesAndFloats) {
  Rng rng(test::Seed(), {1});
  caffe::TransformationParameter param;
  param.set_scale(0.00390625f);
  for (bool floats : {false, true}) {
    for (int width : {1, 15, 16, 17, 28, 100}) {
      const caffe::Datum datum = RandomDatum(&rng, 2, 3, width, floats);
      EXPECT_EQ(Apply(param, caffe::TRAIN, datum, 0), Naive(param, datum, {}, 0, 0, false));
    }
  }
}

TEST(Transformer, SubtractsOneMeanOrOnePerChannel) {
  Rng rng(test::Seed(), {2});
  const caffe::Datum datum = RandomDatum(&rng, 3, 4, 5, false);
  caffe::TransformationParameter param;
  param.set_scale(0.5f);
  param.add_mean_value(104);
  EXPECT_EQ(Apply(param, caffe::TRAIN, datum, 0), Naive(param, datum, {}, 0, 0, false));
  param.add_mean_value(117);
  param.add_mean_value(123);
  EXPECT_EQ(Apply(param, caffe::TRAIN, datum, 0), Naive(param, datum, {}, 0, 0, false));
}

// The (y, x, mirror) for which the transformation gives `out`. Fails if none does.
std::tuple<int, int, bool> FindChoice(const caffe::TransformationParameter& param,
                                      const caffe::Datum& datum, const std::vector<float>& mean,
                                      const std::vector<float>& out) {
  const int crop = static_cast<int>(param.crop_size());
  for (int y = 0; y <= (crop ? datum.height() - crop : 0); ++y) {
    for (int x = 0; x <= (crop ? datum.width() - crop : 0); ++x) {
      for (bool mirror : {false, true}) {
        if (Naive(param, datum, mean, y, x, mirror) == out) return {y, x, mirror};
      }
    }
  }
  ADD_FAILURE() << "the output is no crop of the input";
  return {};
}

TEST(Transformer, CropsAnywhereInTrainAndMirrorsHalfOfTheTime) {
  Rng rng(test::Seed(), {3});
  caffe::TransformationParameter param;
  param.set_crop_size(20);
  param.set_mirror(true);
  param.add_mean_value(7);
  for (bool floats : {false, true}) {
    const caffe::Datum datum = RandomDatum(&rng, 2, 22, 23, floats);
    std::set<std::tuple<int, int, bool>> choices;
    int mirrored = 0;
    for (uint64_t item = 0; item < 400; ++item) {
      const auto out = Apply(param, caffe::TRAIN, datum, item);
      const auto choice = FindChoice(param, datum, {}, out);
      choices.insert(choice);
      mirrored += std::get<2>(choice);
      EXPECT_EQ(Apply(param, caffe::TRAIN, datum, item), out);  // a resumed run repeats it
    }
    // All 3 x 4 corners occur, mirrored and not. 200 mirrored items are expected, with standard
    // deviation 10.
    EXPECT_EQ(choices.size(), 24u);
    EXPECT_NEAR(mirrored, 200, 90);
  }
}

TEST(Transformer, CropsTheCentreInTestButMirrorsThereTooAsCaffeDoes) {
  Rng rng(test::Seed(), {4});
  caffe::TransformationParameter param;
  param.set_crop_size(3);
  const caffe::Datum datum = RandomDatum(&rng, 1, 6, 8, false);
  EXPECT_EQ(Apply(param, caffe::TEST, datum, 0), Naive(param, datum, {}, 1, 2, false));
  param.set_mirror(true);
  std::set<std::tuple<int, int, bool>> choices;
  for (uint64_t item = 0; item < 100; ++item) {
    choices.insert(FindChoice(param, datum, {}, Apply(param, caffe::TEST, datum, item)));
  }
  EXPECT_EQ(choices, (std::set<std::tuple<int, int, bool>>{{1, 2, false}, {1, 2, true}}));
}

TEST(Transformer, CropsToOtherSizesThanSquares) {
  Rng rng(test::Seed(), {8});
  caffe::TransformationParameter param;
  param.set_crop_h(3), param.set_crop_w(6);
  const caffe::Datum datum = RandomDatum(&rng, 2, 5, 9, false);
  EXPECT_EQ(Apply(param, caffe::TEST, datum, 0), Naive(param, datum, {}, 1, 1, false));
  param.set_mirror(true);
  std::set<std::vector<float>> expected, seen;
  for (int y = 0; y <= 2; ++y) {
    for (int x = 0; x <= 3; ++x) {
      for (const bool mirror : {false, true}) {
        expected.insert(Naive(param, datum, {}, y, x, mirror));
      }
    }
  }
  for (uint64_t item = 0; item < 500; ++item) seen.insert(Apply(param, caffe::TRAIN, datum, item));
  EXPECT_EQ(seen, expected);
}

TEST(Transformer, ChoosesOtherwiseForOtherSeeds) {
  Rng rng(test::Seed(), {5});
  caffe::TransformationParameter param;
  param.set_crop_size(8);
  const caffe::Datum datum = RandomDatum(&rng, 1, 32, 32, false);
  int same = 0;
  for (uint64_t item = 0; item < 50; ++item) {
    same += Apply(param, caffe::TRAIN, datum, item, test::Seed()) ==
            Apply(param, caffe::TRAIN, datum, item, test::Seed() + 1);
  }
  EXPECT_LT(same, 25);  // by chance, one of 625 corners matches
}

TEST(Transformer, SubtractsTheMeanImageAtThePlaceOfTheCrop) {
  const test::TempDir folder;
  Rng rng(test::Seed(), {6});
  std::vector<float> mean(2 * 5 * 40);
  for (float& value : mean) value = 100 * rng.Uniform();
  for (bool legacy : {false, true}) {
    for (uint32_t crop : {0, 4}) {
      caffe::TransformationParameter param;
      param.set_mean_file(WriteMean(folder, mean, {2, 5, 40}, legacy));
      param.set_scale(0.25f);
      param.set_crop_size(crop);
      param.set_mirror(true);
      for (uint64_t item = 0; item < 10; ++item) {
        const caffe::Datum datum = RandomDatum(&rng, 2, 5, 40, item % 2 == 0);
        FindChoice(param, datum, mean, Apply(param, caffe::TRAIN, datum, item));
      }
    }
  }
}

TEST(Transformer, TakesImagesOfOtherSizesOnlyWhereTheCropMakesThemAlike) {
  Rng rng(test::Seed(), {7});
  const std::string first = RandomDatum(&rng, 1, 6, 6, false).SerializeAsString();
  const auto error = [&](uint32_t crop, int channels, int height, int width) {
    caffe::TransformationParameter param;
    param.set_crop_size(crop);
    Transformer transformer(param, caffe::TRAIN, 1, kStream, ReadDatum("db", "0", first));
    const std::string other = RandomDatum(&rng, channels, height, width, false).SerializeAsString();
    std::vector<float> out(transformer.output().count());
    try {
      transformer.Apply(ReadDatum("db", "1", other), 0, out.data());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(4, 1, 9, 4), "");
  EXPECT_EQ(error(4, 1, 9, 3), "is 1 x 9 x 3, expected 1 x 6 x 6 like the first record");
  EXPECT_CONTAINS(error(0, 1, 9, 4), "expected 1 x 6 x 6");
  EXPECT_CONTAINS(error(4, 3, 6, 6), "is 3 x 6 x 6, expected 1 x 6 x 6");
}

// "field: message" of the FieldError for the parameter.
std::string ParamError(const caffe::TransformationParameter& param) {
  const std::string bytes = test::ByteDatum(0, 3, 4, 5).SerializeAsString();
  try {
    Transformer(param, caffe::TRAIN, 1, kStream, ReadDatum("db", "0", bytes));
  } catch (const FieldError& error) {
    return error.field() + ": " + error.what();
  }
  return "";
}

TEST(Transformer, NamesTheFieldThatDoesNotFit) {
  const test::TempDir folder;
  caffe::TransformationParameter param;
  EXPECT_EQ(ParamError(param), "");
  param.set_crop_size(5);
  EXPECT_EQ(ParamError(param), "transform_param.crop_size: is 5, more than the images of 4 x 5");
  param.set_crop_size(UINT32_MAX);
  EXPECT_CONTAINS(ParamError(param), "transform_param.crop_size: is 4294967295");
  param.Clear();
  param.set_crop_w(3);
  EXPECT_CONTAINS(ParamError(param), "transform_param.crop_h: is 0 or missing");
  param.set_crop_h(5);
  EXPECT_CONTAINS(ParamError(param), "transform_param.crop_h: is 5 and crop_w 3, more than");
  param.set_crop_size(3);
  EXPECT_CONTAINS(ParamError(param), "transform_param.crop_size: is given together with crop_h");
  param.Clear();
  param.add_mean_value(1), param.add_mean_value(2);
  EXPECT_CONTAINS(ParamError(param), "transform_param.mean_value: is given 2 times");
  param.set_mean_file("x");
  EXPECT_CONTAINS(ParamError(param), "transform_param.mean_value: is given together with");
  param.clear_mean_value();
  EXPECT_CONTAINS(ParamError(param), "transform_param.mean_file: x: No such file");
  param.set_mean_file(WriteMean(folder, std::vector<float>(60), {3, 5, 4}, false));
  EXPECT_CONTAINS(ParamError(param), "holds an image of 3 x 5 x 4, expected 3 x 4 x 5");
  param.set_mean_file(WriteMean(folder, std::vector<float>(59), {3, 4, 5}, true));
  EXPECT_CONTAINS(ParamError(param), "holds 59 values, expected 60");
  test::WriteFile(folder / "mean.binaryproto", "junk");
  EXPECT_CONTAINS(ParamError(param), "truncated or not a mean image");
}

}  // namespace
}  // namespace millrace
