#include "contrib/annotated/annotated_data_layer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "nn/net.h"
#include "test/data/layer_instance.h"
#include "test/data/test_db.h"
#include "test/support/encode_images.h"
#include "test/support/fake_device.h"

namespace millrace {
namespace {

using test::LayerInstance;

// A box of a record.
struct Given {
  int label, instance;
  float xmin, ymin, xmax, ymax;
  bool difficult = false;
};

caffe::AnnotatedDatum Annotated(const caffe::Datum& datum, const std::vector<Given>& boxes) {
  caffe::AnnotatedDatum annotated;
  *annotated.mutable_datum() = datum;
  annotated.set_type(caffe::AnnotatedDatum::BBOX);
  for (const Given& each : boxes) {
    caffe::AnnotationGroup* const group = annotated.add_annotation_group();
    group->set_group_label(each.label);
    caffe::Annotation* const annotation = group->add_annotation();
    annotation->set_instance_id(each.instance);
    caffe::NormalizedBBox* const box = annotation->mutable_bbox();
    box->set_xmin(each.xmin), box->set_ymin(each.ymin);
    box->set_xmax(each.xmax), box->set_ymax(each.ymax);
    box->set_difficult(each.difficult);
  }
  return annotated;
}

class AnnotatedDataLayerTest : public testing::Test {
 protected:
  void Write(const std::vector<caffe::AnnotatedDatum>& records, const std::string& name = "db") {
    std::vector<std::string> values;
    for (const caffe::AnnotatedDatum& each : records) values.push_back(each.SerializeAsString());
    test::WriteRawDb(folder_ / name, values);
  }
  caffe::LayerParameter Param(const std::string& transform = "", const std::string& more = "",
                              int batch_size = 2, const std::string& data = "") const {
    return test::LayerOf(Text(transform, more, batch_size, data));
  }
  std::string Text(const std::string& transform = "", const std::string& more = "",
                   int batch_size = 2, const std::string& data = "") const {
    return "name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
           folder_ / "db' batch_size: " + std::to_string(batch_size) + " " + data +
           " } transform_param { " + transform + " } " + more;
  }
  // Setting up a layer throws this, as test::SetUpError.
  std::string ErrorOf(const std::string& transform, const std::string& more = "",
                      int batch_size = 2) const {
    return test::SetUpError(Param(transform, more, batch_size));
  }

  test::TempDir folder_;
};

// Records with 2, 0, 0, 0 and 1 boxes, whose pixels are determined by their numbers.
std::vector<caffe::AnnotatedDatum> SomeRecords() {
  return {Annotated(test::ByteDatum(0, 3, 4, 5),
                    {{7, 1, 0.125f, 0.25f, 0.5f, 0.75f}, {9, 2, 0, 0, 1, 1, true}}),
          Annotated(test::ByteDatum(1, 3, 4, 5), {}), Annotated(test::ByteDatum(2, 3, 4, 5), {}),
          Annotated(test::ByteDatum(3, 3, 4, 5), {}),
          Annotated(test::ByteDatum(4, 3, 4, 5), {{5, 3, 0.5f, 0, 1, 0.5f}})};
}

const std::vector<float> kFirstRow = {0, 7, 1, 0.125f, 0.25f, 0.5f, 0.75f, 0};
const std::vector<float> kNone(8, -1);

TEST_F(AnnotatedDataLayerTest, GivesImagesAndTheBoxesOfEachBatch) {
  Write(SomeRecords());
  DataService service{DataOptions()};
  LayerInstance layer(Param("scale: 0.5 mean_value: 3"), &service);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 3, 4, 5}));
  EXPECT_EQ(layer.top(1).shape(), Shape({1, 1, 2, 8}));
  EXPECT_EQ(layer.layer().batch_size(), 2);
  std::vector<std::vector<float>> labels;
  for (int pass = 0; pass < 5; ++pass) {
    labels.push_back(layer.Next(1));
    EXPECT_EQ(layer.top(1).shape(),
              Shape({1, 1, static_cast<int64_t>(labels.back().size()) / 8, 8}));
    const std::vector<float> values = layer.Values(0);
    for (int n = 0; n < 2; ++n) {
      const caffe::Datum expected = test::ByteDatum((pass * 2 + n) % 5, 3, 4, 5);
      for (int i = 0; i < 60; ++i) {
        const auto pixel = static_cast<float>(static_cast<uint8_t>(expected.data()[i]));
        ASSERT_EQ(values[n * 60 + i], (pixel - 3) * 0.5f);
      }
    }
  }
  std::vector<float> first = kFirstRow;
  first.insert(first.end(), {0, 9, 2, 0, 0, 1, 1, 1});
  EXPECT_EQ(labels[0], first);
  EXPECT_EQ(labels[1], kNone);
  std::vector<float> third = {0, 5, 3, 0.5f, 0, 1, 0.5f, 0};  // records 4 and 0
  for (std::vector<float> row : {kFirstRow, std::vector<float>{0, 9, 2, 0, 0, 1, 1, 1}}) {
    row[0] = 1;
    third.insert(third.end(), row.begin(), row.end());
  }
  EXPECT_EQ(labels[2], third);
  EXPECT_EQ(labels[3], kNone);
  EXPECT_EQ(labels[4], (std::vector<float>{1, 5, 3, 0.5f, 0, 1, 0.5f, 0}));
}

TEST_F(AnnotatedDataLayerTest, GivesTheLabelsOfRecordsWithoutAType) {
  std::vector<caffe::AnnotatedDatum> records = SomeRecords();
  for (caffe::AnnotatedDatum& each : records) each.clear_type();
  Write(records);
  DataService service{DataOptions()};
  LayerInstance layer(Param(), &service);
  EXPECT_EQ(layer.top(1).shape(), Shape({2, 1, 1, 1}));
  EXPECT_EQ(layer.Next(1), (std::vector<float>{0, 1}));
  EXPECT_EQ(layer.Next(1), (std::vector<float>{2, 3}));
  DataService other{DataOptions()};
  LayerInstance boxes(Param("", "annotated_data_param { anno_type: BBOX }"), &other);
  EXPECT_EQ(boxes.Next(1).size(), 16u);
}

TEST_F(AnnotatedDataLayerTest, NeedsNoLabels) {
  Write(SomeRecords());
  DataService service{DataOptions()};
  caffe::LayerParameter param = Param();
  param.mutable_top()->RemoveLast();
  LayerInstance layer(param, &service);
  EXPECT_EQ(layer.Next(0).size(), 120u);
}

TEST_F(AnnotatedDataLayerTest, GivesASingleImageItsOwnSize) {
  Write({Annotated(test::ByteDatum(0, 1, 4, 5), {}), Annotated(test::ByteDatum(1, 1, 6, 3), {}),
         Annotated(test::ByteDatum(2, 1, 2, 2), {})});
  DataService service{DataOptions()};
  LayerInstance layer(Param("", "", 1), &service);
  for (const Shape& shape : {Shape{1, 1, 4, 5}, Shape{1, 1, 6, 3}, Shape{1, 1, 2, 2}}) {
    layer.Forward();
    EXPECT_EQ(layer.top(0).shape(), shape);
  }
  DataService other{DataOptions()};
  LayerInstance fits(
      Param("resize_param { resize_mode: FIT_SMALL_SIZE height: 4 width: 4 }", "", 1), &other);
  for (const Shape& shape : {Shape{1, 1, 4, 5}, Shape{1, 1, 8, 4}, Shape{1, 1, 4, 4}}) {
    fits.Forward();
    EXPECT_EQ(fits.top(0).shape(), shape);
  }
}

// ---- Boxes move with the image ----------------------------------------------

constexpr int kHeight = 60, kWidth = 84, kRecords = 12;

// Black images with a white box each, the object: as PNGs and raw.
std::vector<caffe::AnnotatedDatum> WhiteBoxes() {
  std::vector<caffe::AnnotatedDatum> records;
  for (int i = 0; i < kRecords; ++i) {
    const int x0 = 5 + 4 * i, y0 = 30 - 2 * i, x1 = x0 + 18 + i, y1 = y0 + 24;
    Image image{3, kHeight, kWidth, std::vector<uint8_t>(3 * kHeight * kWidth)};
    for (int y = y0; y < y1; ++y) {
      std::fill_n(image.values.begin() + (y * kWidth + x0) * 3, (x1 - x0) * 3, uint8_t{255});
    }
    caffe::Datum datum;
    if (i % 2) {
      datum = test::EncodedDatum(i, test::EncodePng(image, {}));
    } else {
      datum.set_channels(3), datum.set_height(kHeight), datum.set_width(kWidth);
      for (int c = 0; c < 3; ++c) {
        for (int k = 0; k < kHeight * kWidth; ++k) {
          datum.mutable_data()->push_back(static_cast<char>(image.values[k * 3 + c]));
        }
      }
    }
    const auto w = static_cast<float>(kWidth), h = static_cast<float>(kHeight);
    records.push_back(
        Annotated(datum, {{i + 1, 0, static_cast<float>(x0) / w, static_cast<float>(y0) / h,
                           static_cast<float>(x1) / w, static_cast<float>(y1) / h}}));
  }
  return records;
}

// The rectangle of the bright values of an image {height, width}, in shares; none if there are
// none.
std::optional<std::array<float, 4>> BrightPart(const float* values, int height, int width) {
  int x0 = width, y0 = height, x1 = 0, y1 = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (values[y * width + x] < 100) continue;
      x0 = std::min(x0, x), y0 = std::min(y0, y);
      x1 = std::max(x1, x + 1), y1 = std::max(y1, y + 1);
    }
  }
  if (x1 == 0) return std::nullopt;
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  return std::array<float, 4>{static_cast<float>(x0) / w, static_cast<float>(y0) / h,
                              static_cast<float>(x1) / w, static_cast<float>(y1) / h};
}

TEST_F(AnnotatedDataLayerTest, MovesBoxesWithTheirPixels) {
  Write(WhiteBoxes());
  const std::string resize = "resize_param { height: 48 width: 40 ";
  const std::string sampler =
      "annotated_data_param { batch_sampler { max_trials: 1 } batch_sampler { sampler {"
      " min_scale: 0.5 min_aspect_ratio: 0.5 max_aspect_ratio: 2 } sample_constraint {"
      " min_jaccard_overlap: 0.05 } max_sample: 1 } }";
  struct Case {
    std::string transform, more;
  };
  for (const Case& each :
       {Case{resize + "}", ""}, Case{resize + "} mirror: true", ""},
        Case{resize + "resize_mode: FIT_LARGE_SIZE_AND_PAD }", ""},
        Case{resize + "resize_mode: FIT_LARGE_SIZE_AND_PAD } crop_size: 36 mirror: true", ""},
        Case{"crop_h: 40 crop_w: 50 mirror: true", ""},
        Case{resize + "} expand_param { max_expand_ratio: 3 }", ""},
        Case{resize + "interp_mode: AREA } mirror: true", sampler},
        Case{resize +
                 "interp_mode: NEAREST interp_mode: CUBIC } expand_param { prob: 0.5 "
                 "max_expand_ratio: 2 } distort_param { brightness_prob: 0.5 brightness_delta: 32 "
                 "contrast_prob: 0.5 contrast_lower: 0.7 contrast_upper: 1.5 hue_prob: 0.5 "
                 "hue_delta: 18 saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 "
                 "random_order_prob: 0.5 } mirror: true crop_h: 40 crop_w: 30",
             sampler}}) {
    SCOPED_TRACE(each.transform + each.more);
    DataService service{DataOptions()};
    LayerInstance layer(Param(each.transform, each.more, 4), &service);
    const auto height = static_cast<int>(layer.top(0).dim(2));
    const auto width = static_cast<int>(layer.top(0).dim(3));
    int found = 0;
    std::set<std::vector<float>> different;
    for (int pass = 0; pass < 30; ++pass) {
      layer.Forward();
      const std::vector<float> values = layer.Values(0), rows = layer.Values(1);
      for (int n = 0; n < 4; ++n) {
        const auto bright = BrightPart(&values[n * 3 * height * width], height, width);
        const float* row = nullptr;
        for (size_t k = 0; k < rows.size(); k += 8) {
          if (rows[k] == static_cast<float>(n)) row = &rows[k];
        }
        if (row == nullptr) {
          // A sliver may stay of an object whose box has been cut away.
          if (bright) {
            EXPECT_LT(std::min((*bright)[2] - (*bright)[0], (*bright)[3] - (*bright)[1]), 0.1f);
          }
          continue;
        }
        EXPECT_EQ(row[1], static_cast<float>((pass * 4 + n) % kRecords + 1));
        const float size = std::min(row[5] - row[3], row[6] - row[4]);
        if (!bright) {
          EXPECT_LT(size, 0.1f);
          continue;
        }
        ++found;
        different.insert({row + 1, row + 8});
        if (size < 0.1f) continue;
        for (int k = 0; k < 4; ++k) EXPECT_NEAR(row[3 + k], (*bright)[k], 0.1f) << pass << n;
      }
    }
    EXPECT_GT(found, 60);
    const bool random = each.transform != resize + "}" &&
                        each.transform != resize + "resize_mode: FIT_LARGE_SIZE_AND_PAD }";
    EXPECT_EQ(different.size() > kRecords, random);
  }
}

TEST_F(AnnotatedDataLayerTest, LeavesOutBoxesThatDoNotMeetTheConstraint) {
  // The left quarter of the image stays; its object's centre is there, the other one's is not.
  Write({Annotated(test::ByteDatum(0, 1, 8, 8),
                   {{1, 0, 0.375f, 0.375f, 0.5f, 0.625f}, {2, 0, 0.5f, 0.25f, 1, 0.75f}})});
  const auto labels = [&](const std::string& constraint) {
    DataService service{DataOptions()};
    LayerInstance layer(Param("crop_size: 4 " + constraint), &service, caffe::TEST);
    std::set<float> seen;
    const std::vector<float> rows = layer.Next(1);
    for (size_t k = 0; k < rows.size(); k += 8) seen.insert(rows[k + 1]);
    return seen;
  };
  EXPECT_EQ(labels(""), (std::set<float>{1, 2}));
  EXPECT_EQ(labels("emit_constraint { emit_type: CENTER }"), (std::set<float>{1, 2}));
  EXPECT_EQ(labels("emit_constraint { emit_type: MIN_OVERLAP emit_overlap: 0.6 }"),
            (std::set<float>{1}));
}

TEST_F(AnnotatedDataLayerTest, FillsTheCanvasWithTheMean) {
  Write(WhiteBoxes());
  DataService service{DataOptions()};
  LayerInstance layer(Param("mean_value: 104 mean_value: 117 mean_value: 123"
                            " expand_param { max_expand_ratio: 4 }"
                            " resize_param { height: 20 width: 20 interp_mode: NEAREST }"),
                      &service);
  int of_canvas = 0;
  for (int pass = 0; pass < 10; ++pass) {
    const std::vector<float> values = layer.Next(0);
    of_canvas += static_cast<int>(std::count(values.begin(), values.end(), 0.0f));
    const std::set<float> seen(values.begin(), values.end());
    EXPECT_LE(seen.size(), 7u);  // black and white in each channel, and the mean
  }
  EXPECT_GT(of_canvas, 2000);
}

// ---- Streams ----------------------------------------------------------------

const char* const kEverything =
    "resize_param { height: 20 width: 20 interp_mode: LINEAR interp_mode: AREA }"
    " distort_param { brightness_prob: 0.5 brightness_delta: 32 }"
    " expand_param { max_expand_ratio: 2 } mirror: true crop_size: 16"
    " noise_param { saltpepper: true saltpepper_param { fraction: 0.1 value: 255 } }";
const char* const kSampler =
    "annotated_data_param { batch_sampler { sampler { min_scale: 0.5 } max_sample: 1 } }";

TEST_F(AnnotatedDataLayerTest, IsAFunctionOfTheSeed) {
  Write(WhiteBoxes());
  std::vector<std::vector<float>> runs;
  for (const uint64_t seed : {1, 1, 2}) {
    DataOptions options;
    options.seed = seed;
    DataService service{options};
    LayerInstance layer(Param(kEverything, kSampler, 3, "shuffle: true"), &service);
    std::vector<float>& run = runs.emplace_back();
    for (int pass = 0; pass < 9; ++pass) {
      layer.Forward();
      for (const int top : {0, 1}) {
        for (const float value : layer.Values(top)) run.push_back(value);
      }
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST_F(AnnotatedDataLayerTest, GivesTheSameOnAnotherDevice) {
  Write(WhiteBoxes());
  for (const test::FakeMode mode :
       {test::FakeMode::kAtOnce, test::FakeMode::kLate, test::FakeMode::kThread}) {
    DataService service{DataOptions()}, other{DataOptions()};
    test::FakeDevice device({.mode = mode});
    const auto queue = device.MakeQueue(QueuePriority::kNormal);
    const caffe::LayerParameter param = Param(kEverything, kSampler, 3);
    LayerInstance host(param, &service), remote(param, &other, caffe::TRAIN, *queue);
    for (int pass = 0; pass < 6; ++pass) {
      host.Forward();
      remote.Forward();
      queue->Synchronize();
      EXPECT_EQ(remote.top(1).shape(), host.top(1).shape());
      EXPECT_EQ(remote.Values(0), host.Values(0));
      EXPECT_EQ(remote.Values(1), host.Values(1));
    }
  }
}

TEST_F(AnnotatedDataLayerTest, ShapesTheLayersAfterItInEveryPass) {
  Write(SomeRecords());
  const std::string text =
      "layer { " + Text() + " } layer { name: 'flat' type: 'Flatten' bottom: 'label' top: 'flat' }";
  test::FakeDevice fake;
  std::vector<std::vector<float>> seen;
  for (Device* const device : {static_cast<Device*>(&HostDevice()), static_cast<Device*>(&fake)}) {
    DataService service{DataOptions()};
    caffe::NetParameter param;
    SourceMap source;
    // On the host, two layers read the labels.
    const std::string more =
        device == &fake ? "" : "layer { name: 'none' type: 'Silence' bottom: 'label' }";
    ParseText(text + more, "net.prototxt", &param, &source);
    BuiltNetOptions options;
    options.device = device;
    options.data = &service;
    options.layout = Layout::kPlain;
    BuiltNet net(param, source, options);
    std::vector<float>& all = seen.emplace_back();
    for (const int64_t rows : {2, 1, 3, 1, 1, 2}) {
      net.Forward();
      net.queue().Synchronize();
      EXPECT_EQ(net.FindBlob("label")->shape(), Shape({1, 1, rows, 8}));
      EXPECT_EQ(net.FindBlob("flat")->shape(), Shape({1, rows * 8}));
      std::vector<float> label(rows * 8), flat(rows * 8);
      net.FindBlob("label")->CopyDataToHost(label.data());
      net.FindBlob("flat")->CopyDataToHost(flat.data());
      EXPECT_EQ(flat, label);
      all.insert(all.end(), label.begin(), label.end());
      net.EndIteration();
    }
  }
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_EQ(std::vector<float>(seen[0].begin(), seen[0].begin() + 8), kFirstRow);
}

// ---- Errors -----------------------------------------------------------------

TEST_F(AnnotatedDataLayerTest, NamesARecordThatCannotBeUsed) {
  const caffe::AnnotatedDatum good = Annotated(test::ByteDatum(0, 3, 4, 5), {});
  int number = 0;
  const auto error = [&](const std::string& record, const std::string& transform = "") {
    const std::string name = "db" + std::to_string(number++);
    test::WriteRawDb(folder_ / name, {good.SerializeAsString(), record});
    caffe::LayerParameter param = Param(transform);
    param.mutable_data_param()->set_source(0, folder_ / name);
    DataService service{DataOptions()};
    LayerInstance layer(param, &service);
    return test::ErrorOf([&] { layer.Forward(); });
  };
  EXPECT_CONTAINS(error("junk"), "record '00000001': is not an AnnotatedDatum");
  EXPECT_CONTAINS(error(test::ByteDatum(1).SerializeAsString()), "is not an AnnotatedDatum");
  EXPECT_CONTAINS(error(Annotated(test::EncodedDatum(1, "no image"), {}).SerializeAsString()),
                  "neither a JPEG nor a PNG file");
  caffe::Datum floats;
  floats.set_channels(1), floats.set_height(1), floats.set_width(1);
  floats.add_float_data(1);
  EXPECT_CONTAINS(error(Annotated(floats, {}).SerializeAsString()), "holds floats, expected bytes");
  EXPECT_CONTAINS(error(Annotated(test::ByteDatum(1, 1, 4, 5), {}).SerializeAsString()),
                  "has 1 channels, expected 3 like the first record");
  EXPECT_CONTAINS(error(Annotated(test::ByteDatum(1, 3, 5, 5), {}).SerializeAsString()),
                  "is 5 x 5 after its changes, expected 4 x 5");
  EXPECT_CONTAINS(
      error(Annotated(test::ByteDatum(1, 3, 3, 5), {}).SerializeAsString(), "crop_size: 4"),
      "is 3 x 5, expected at least 4 x 4 for the crop");
  caffe::AnnotatedDatum untyped = good;
  untyped.clear_type();
  EXPECT_CONTAINS(error(untyped.SerializeAsString()), "has no type of annotation");
}

TEST_F(AnnotatedDataLayerTest, RefusesBadSettings) {
  Write(SomeRecords());
  EXPECT_EQ(ErrorOf(""), "");
  EXPECT_CONTAINS(ErrorOf("resize_param { resize_mode: FIT_SMALL_SIZE height: 2 width: 2 }"),
                  "transform_param.resize_param.resize_mode: FIT_SMALL_SIZE given");
  EXPECT_CONTAINS(ErrorOf("resize_param { height: 2 }"), "transform_param.resize_param.width: 0");
  EXPECT_CONTAINS(ErrorOf("expand_param {}"),
                  "transform_param.expand_param.max_expand_ratio: 1 given or missing");
  EXPECT_CONTAINS(ErrorOf("expand_param { max_expand_ratio: 2 } mean_file: 'mean'"),
                  "transform_param.mean_file: given, expected mean_value");
  EXPECT_CONTAINS(ErrorOf("noise_param { clahe: true }"), "transform_param.noise_param.clahe");
  EXPECT_CONTAINS(ErrorOf("crop_h: 2"), "transform_param.crop_w: is 0 or missing");
  EXPECT_CONTAINS(ErrorOf("crop_h: 2 crop_w: 2 crop_size: 2"),
                  "transform_param.crop_size: is given");
  EXPECT_CONTAINS(ErrorOf("crop_h: 2 crop_w: 9"), "more than the images of 4 x 5");
  EXPECT_CONTAINS(
      ErrorOf("", "annotated_data_param { batch_sampler { sampler { min_scale: 2 } } }"),
      "annotated_data_param.batch_sampler[0].sampler.min_scale: 2");
  test::WriteLabels(folder_ / "plain", 2);
  caffe::LayerParameter plain = Param();
  plain.mutable_data_param()->set_source(0, folder_ / "plain");
  EXPECT_CONTAINS(test::SetUpError(plain), "data_param.source: ");
  EXPECT_CONTAINS(test::SetUpError(plain), "is not an AnnotatedDatum");
}

// ---- The same changes in a Data layer ---------------------------------------

class ChangesOfDataLayerTest : public AnnotatedDataLayerTest {
 protected:
  caffe::LayerParameter Data(const std::string& transform) const {
    caffe::LayerParameter param = Param(transform);
    param.set_type("Data");
    return param;
  }
};

TEST_F(ChangesOfDataLayerTest, ResizesAndInvertsBeforeTheCrop) {
  const caffe::Datum large = test::ByteDatum(5, 2, 8, 10), small = test::ByteDatum(6, 2, 4, 5);
  test::WriteDb(folder_ / "db", {large, small});
  DataService service{DataOptions()};
  LayerInstance layer(Data("resize_param { height: 6 width: 7 interp_mode: NEAREST }"
                           " noise_param { inverse: true } crop_size: 4 scale: 2"),
                      &service, caffe::TEST);
  EXPECT_EQ(layer.top(0).shape(), Shape({2, 2, 4, 4}));
  const std::vector<float> values = layer.Next(0);
  EXPECT_EQ(layer.Values(1), (std::vector<float>{5, 6}));
  for (int n = 0; n < 2; ++n) {
    const caffe::Datum& datum = n == 0 ? large : small;
    for (int i = 0; i < 32; ++i) {
      const int c = i / 16, y = (1 + i / 4 % 4) * datum.height() / 6;
      const int x = (1 + i % 4) * datum.width() / 7;
      const auto pixel =
          static_cast<uint8_t>(datum.data()[(c * datum.height() + y) * datum.width() + x]);
      ASSERT_EQ(values[n * 32 + i], 2.0f * static_cast<float>(255 - pixel)) << n << " " << i;
    }
  }
}

TEST_F(ChangesOfDataLayerTest, NamesARecordThatCannotBeChanged) {
  caffe::Datum floats;
  floats.set_channels(1), floats.set_height(1), floats.set_width(1);
  floats.add_float_data(1);
  test::WriteDb(folder_ / "db", {test::ByteDatum(1, 1, 2, 2), floats});
  DataService service{DataOptions()};
  LayerInstance layer(Data("resize_param { height: 3 width: 3 }"), &service);
  EXPECT_CONTAINS(test::ErrorOf([&] { layer.Forward(); }),
                  "record '00000001': holds floats, expected bytes");
  test::WriteDb(folder_ / "other", {test::ByteDatum(1, 1, 2, 2), test::ByteDatum(1, 3, 2, 2)});
  caffe::LayerParameter param = Data("resize_param { height: 3 width: 3 }");
  param.mutable_data_param()->set_source(0, folder_ / "other");
  DataService another{DataOptions()};
  LayerInstance channels(param, &another);
  EXPECT_CONTAINS(test::ErrorOf([&] { channels.Forward(); }), "has 3 channels, expected 1");
}

TEST_F(ChangesOfDataLayerTest, RefusesTheFieldsThatItDoesNotRead) {
  test::WriteLabels(folder_ / "db", 2);
  for (const std::string field : {"emit_constraint", "distort_param", "expand_param"}) {
    EXPECT_CONTAINS(test::SetUpError(Data(field + " {}")),
                    "transform_param." + field + ": given, expected none");
  }
  EXPECT_CONTAINS(test::SetUpError(Data("resize_param { height: 3 }")),
                  "transform_param.resize_param.width: 0 given or missing");
}

}  // namespace
}  // namespace millrace
