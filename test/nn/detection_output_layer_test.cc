#include <algorithm>
#include <cmath>
#include <limits>

#include "base/files/file.h"
#include "test/nn/loss_support.h"
#include "test/nn/net_support.h"

namespace millrace::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string DetectionOutputText(const std::string& param) {
  return "type: 'DetectionOutput' detection_output_param { " + param + " }";
}

// As a net does: with the values of the bottoms, Reshape before Forward.
Array Detect(LayerRunner* runner) {
  runner->layer().Reshape(runner->bottoms(), runner->tops());
  return runner->Output();
}

struct DetectionOutputFound {
  int label;
  double score;
  Array box;
};

double Jaccard(const Array& a, const Array& b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const double h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h);
}

struct Inputs {
  int images, priors, classes, location_classes;
  Array locations, confidences, prior_values;
};

Inputs RandomInputs(int images, int priors, int classes, int location_classes, Rng* rng) {
  Inputs in{images, priors, classes, location_classes, {}, {}, {}};
  in.locations = Uniform(int64_t{4} * images * priors * location_classes, -1, 1, rng);
  in.confidences = Apart(int64_t{1} * images * priors * classes, 1e-3, rng);
  for (int i = 0; i < priors; ++i) {
    const Array v = Uniform(4, 0, 1, rng);
    for (const double edge :
         {0.6 * v[0], 0.6 * v[1], 0.6 * v[0] + 0.1 + 0.3 * v[2], 0.6 * v[1] + 0.1 + 0.3 * v[3]}) {
      in.prior_values.push_back(static_cast<float>(edge));
    }
  }
  for (int i = 0; i < 4 * priors; ++i) in.prior_values.push_back(0.125);
  return in;
}

std::unique_ptr<LayerRunner> RunnerFor(const std::string& param, const Inputs& in) {
  const int64_t n = in.images, p = in.priors;
  return RunnerOf(DetectionOutputText(param), {{{n, 4 * p * in.location_classes}, in.locations},
                                               {{n, p * in.classes, 1, 1}, in.confidences},
                                               {{1, 2, 4 * p}, in.prior_values}});
}

struct Rules {
  int background = 0, top_k = -1, keep = -1;
  double threshold = 0.3, least = -1e9;
};

// With boxes of CENTER_SIZE.
Array Expected(const Inputs& in, const Rules& rules) {
  Array rows;
  for (int n = 0; n < in.images; ++n) {
    std::vector<DetectionOutputFound> all;
    for (int c = 0; c < in.classes; ++c) {
      if (c == rules.background) continue;
      std::vector<DetectionOutputFound> of_class;
      for (int i = 0; i < in.priors; ++i) {
        const size_t at = (static_cast<size_t>(n) * in.priors + i) * in.location_classes +
                          (in.location_classes > 1 ? c : 0);
        const double* code = &in.locations[4 * at];
        const double* q = &in.prior_values[4 * i];
        const double* v = &in.prior_values[4 * (in.priors + i)];
        const double w = q[2] - q[0], h = q[3] - q[1];
        const double x = (q[0] + q[2]) / 2 + v[0] * code[0] * w;
        const double y = (q[1] + q[3]) / 2 + v[1] * code[1] * h;
        const double bw = w * std::exp(v[2] * code[2]) / 2, bh = h * std::exp(v[3] * code[3]) / 2;
        const double score =
            in.confidences[(static_cast<size_t>(n) * in.priors + i) * in.classes + c];
        if (score > rules.least) of_class.push_back({c, score, {x - bw, y - bh, x + bw, y + bh}});
      }
      std::sort(of_class.begin(), of_class.end(),
                [](const DetectionOutputFound& a, const DetectionOutputFound& b) {
                  return a.score > b.score;
                });
      if (rules.top_k >= 0) {
        of_class.resize(std::min<size_t>(of_class.size(), rules.top_k), {0, 0, {}});
      }
      std::vector<DetectionOutputFound> kept;
      for (const DetectionOutputFound& each : of_class) {
        if (std::all_of(kept.begin(), kept.end(), [&](const DetectionOutputFound& other) {
              return Jaccard(each.box, other.box) <= rules.threshold;
            })) {
          kept.push_back(each);
        }
      }
      all.insert(all.end(), kept.begin(), kept.end());
    }
    if (rules.keep >= 0 && static_cast<int>(all.size()) > rules.keep) {
      Array scores;
      for (const DetectionOutputFound& each : all) scores.push_back(each.score);
      std::sort(scores.rbegin(), scores.rend());
      std::erase_if(
          all, [&](const DetectionOutputFound& each) { return each.score <= scores[rules.keep]; });
    }
    for (const DetectionOutputFound& each : all) {
      rows.insert(rows.end(), {double(n), double(each.label), each.score});
      rows.insert(rows.end(), each.box.begin(), each.box.end());
    }
  }
  return rows;
}

TEST(DetectionOutputLayer, AgreesWithPlainLoops) {
  Rng rng(Seed(), {1});
  for (int round = 0; round < 20; ++round) {
    for (const bool shared : {true, false}) {
      const Inputs in = RandomInputs(2, 25, 4, shared ? 1 : 4, &rng);
      Rules rules;
      std::string param = StrCat("num_classes: 4 code_type: CENTER_SIZE share_location: ",
                                 shared ? "true" : "false", " nms_param { nms_threshold: 0.25 ");
      rules.threshold = 0.25;
      if (round % 2) param += "top_k: 9 ", rules.top_k = 9;
      param += "} ";
      if (round % 3) param += "keep_top_k: 7 ", rules.keep = 7;
      if (round % 5) param += "confidence_threshold: -0.01 ", rules.least = -0.01f;
      if (round % 7 == 0) param += "background_label_id: -1 ", rules.background = -1;
      SCOPED_TRACE(param);
      const auto runner = RunnerFor(param, in);
      const Array expected = Expected(in, rules);
      const Array actual = Detect(runner.get());
      EXPECT_EQ(runner->top().shape(), (Shape{1, 1, static_cast<int64_t>(expected.size()) / 7, 7}));
      ASSERT_EQ(actual.size(), expected.size());
      EXPECT_EQ(Diff(expected, actual), "");
    }
  }
}

// Two priors, scores of two classes.
Inputs Simple(const Array& confidences) {
  const int images = static_cast<int>(confidences.size()) / 4;
  return {images,
          2,
          2,
          1,
          Array(8 * images, 0.0),
          confidences,
          {0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}};
}

TEST(DetectionOutputLayer, GivesARowPerImageIfThereIsNothing) {
  const auto runner = RunnerFor("num_classes: 2 confidence_threshold: 0.5", Simple(Array(8, 0.0)));
  EXPECT_EQ(Detect(runner.get()), (Array{0, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1}));
}

TEST(DetectionOutputLayer, GivesNoRowForAnImageWithoutObjectsBesideOneWithSome) {
  const auto runner =
      RunnerFor("num_classes: 2 confidence_threshold: 0.5", Simple({0, 0, 0, 0, 0, 0.25, 0, 0.75}));
  EXPECT_EQ(Detect(runner.get()), (Array{1, 1, 0.75, 0.5, 0.5, 1, 1}));
}

TEST(DetectionOutputLayer, IgnoresScoresThatAreNotNumbers) {
  const auto runner = RunnerFor("num_classes: 2", Simple({0, kNan, 0, 0.75}));
  EXPECT_EQ(Detect(runner.get()), (Array{0, 1, 0.75, 0.5, 0.5, 1, 1}));
  const auto none = RunnerFor("num_classes: 2", Simple({0, kNan, 0, kNan}));
  EXPECT_EQ(Detect(none.get())[1], -1);
}

TEST(DetectionOutputLayer, DecodesByTheCodeAndTheVariances) {
  Inputs in = Simple({0, 0.75, 0, 0.25});
  in.locations = {0.5, 0.25, 0.5, 0.25, 0, 0, 0, 0};
  const auto corner = RunnerFor("num_classes: 2 keep_top_k: 1", in);
  EXPECT_EQ(Detect(corner.get()), (Array{0, 1, 0.75, 0.25, 0.125, 0.75, 0.625}));
  const auto in_target =
      RunnerFor("num_classes: 2 keep_top_k: 1 variance_encoded_in_target: true", in);
  EXPECT_EQ(Detect(in_target.get()), (Array{0, 1, 0.75, 0.5, 0.25, 1, 0.75}));
  const auto size = RunnerFor("num_classes: 2 keep_top_k: 1 code_type: CORNER_SIZE", in);
  EXPECT_EQ(Detect(size.get()), (Array{0, 1, 0.75, 0.125, 0.0625, 0.625, 0.5625}));
}

TEST(DetectionOutputLayer, ShapesItsTopForTheMostRowsAtFirst) {
  const Inputs in = Simple(Array(8, 0.0));
  EXPECT_EQ(RunnerFor("num_classes: 2 keep_top_k: 1", in)->top().dim(2), 2);
  EXPECT_EQ(RunnerFor("num_classes: 2", in)->top().dim(2), 8);
}

TEST(DetectionOutputLayer, FollowsBottomsOfAnotherSize) {
  Rng rng(Seed(), {2});
  const std::string param = "num_classes: 2 code_type: CENTER_SIZE";
  const auto runner = RunnerFor(param, Simple(Array(4, 0.0)));
  Detect(runner.get());
  const Inputs in = RandomInputs(3, 6, 2, 1, &rng);
  Resize(runner.get(),
         {{{3, 24}, in.locations}, {{3, 12}, in.confidences}, {{1, 2, 24}, in.prior_values}});
  EXPECT_EQ(Diff(Expected(in, {}), Detect(runner.get())), "");
}

// A directory with a label map and the sizes of two images.
class SavingResults : public testing::Test {
 protected:
  SavingResults() {
    WriteFile(folder_ / "map.prototxt",
              "item { name: 'none' label: 0 } item { name: '7' label: 1 display_name: 'cat' }");
    WriteFile(folder_ / "sizes.txt", "000005 100 200\n12 50 60\n");
  }

  std::string Param(const std::string& format, const std::string& rest = "") const {
    return StrCat(
        "num_classes: 2 confidence_threshold: 0.5 save_output_param { output_directory: '",
        folder_ / "out/deep", "' output_name_prefix: 'r_' output_format: '", format,
        "' label_map_file: '", folder_ / "map.prototxt", "' name_size_file: '",
        folder_ / "sizes.txt", "' ", rest, " }");
  }
  // Two images, of which each has one object.
  static Inputs Images() { return Simple({0, 0.75, 0, 0, 0, 0, 0, 0.5625}); }
  std::string Content(const std::string& name) const {
    return ReadFile(folder_ / ("out/deep/" + name));
  }

  TempDir folder_;
};

TEST_F(SavingResults, WritesAFilePerClassForVoc) {
  const auto runner = RunnerFor(Param("VOC"), Images());
  Detect(runner.get());
  EXPECT_EQ(Content("r_7.txt"), "000005 0.75 0 0 100 50\n12 0.5625 30 25 60 50\n");
  EXPECT_FALSE(FileExists(folder_ / "out/deep/r_none.txt"));
  Detect(runner.get());  // the list of images starts again
  EXPECT_EQ(Content("r_7.txt"), "000005 0.75 0 0 100 50\n12 0.5625 30 25 60 50\n");
}

TEST_F(SavingResults, WritesAListForCoco) {
  Detect(RunnerFor(Param("COCO"), Images()).get());
  EXPECT_EQ(Content("r_.json"),
            "[\n{\"image_id\": \"000005\", \"category_id\": 7, \"bbox\": [0, 0, 100, 50], "
            "\"score\": 0.75},\n"
            "{\"image_id\": 12, \"category_id\": 7, \"bbox\": [30, 25, 30, 25], "
            "\"score\": 0.5625}\n]\n");
}

TEST_F(SavingResults, WritesOneFileForIlsvrc) {
  Detect(RunnerFor(Param("ILSVRC"), Images()).get());
  EXPECT_EQ(Content("r_.txt"), "000005 1 0.75 0 0 100 50\n12 1 0.5625 30 25 60 50\n");
}

TEST_F(SavingResults, WritesAfterTheTestImages) {
  Inputs one = Images();
  one.images = 1;
  one.locations.resize(8);
  one.confidences.resize(4);
  const auto runner = RunnerFor(Param("ILSVRC"), one);
  Detect(runner.get());
  EXPECT_FALSE(FileExists(folder_ / "out/deep/r_.txt"));
  Detect(runner.get());
  EXPECT_EQ(Content("r_.txt"), "000005 1 0.75 0 0 100 50\n12 1 0.75 0 0 30 25\n");
  const auto first = RunnerFor(Param("ILSVRC", "num_test_image: 1"), one);
  Detect(first.get());
  EXPECT_EQ(Content("r_.txt"), "000005 1 0.75 0 0 100 50\n");
}

TEST_F(SavingResults, RefusesFilesThatItCannotUse) {
  const auto complaint = [](const std::string& param) {
    return SetUpError(DetectionOutputText(param), {{1, 4}, {1, 2}, {1, 2, 4}});
  };
  EXPECT_CONTAINS(complaint(Param("XML")), "\"XML\" given, expected VOC, COCO or ILSVRC");
  EXPECT_CONTAINS(complaint(Param("VOC", "num_test_image: 3")), "3 given, expected 1 to 2");
  EXPECT_CONTAINS(complaint(Param("VOC", "resize_param { }")), "expected both to be more than 0");
  WriteFile(folder_ / "map.prototxt", "item { name: 'a' label: 1 } item { name: 'b' label: 1 }");
  EXPECT_CONTAINS(complaint(Param("VOC")), "label 1 is there twice");
  WriteFile(folder_ / "map.prototxt", "item { name: 'a' label: 3 }");
  const auto runner = RunnerFor(Param("VOC"), Images());
  EXPECT_CONTAINS(ErrorOf([&] { Detect(runner.get()); }), "has no label 1, which was detected");
  WriteFile(folder_ / "map.prototxt", "nonsense");
  EXPECT_CONTAINS(complaint(Param("VOC")), "map.prototxt");
}

TEST_F(SavingResults, SavesNothingWithoutTheFilesThatItNeeds) {
  Detect(RunnerFor(StrCat("num_classes: 2 save_output_param { output_directory: '", folder_ / "out",
                          "' output_format: 'VOC' }"),
                   Images())
             .get());
  EXPECT_FALSE(FileExists(folder_ / "out"));
}

TEST(DetectionOutputLayer, IgnoresVisualize) {
  const auto runner =
      RunnerFor("num_classes: 2 visualize: true visualize_threshold: 0.5", Simple({0, 0, 0, 0.75}));
  EXPECT_EQ(Detect(runner.get()).size(), 14u);
}

TEST(DetectionOutputLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    return SetUpError(DetectionOutputText(param), {{1, 4}, {1, 2}, {1, 2, 4}});
  };
  EXPECT_CONTAINS(complaint(""), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_classes: 2 nms_param { nms_threshold: -1 }"),
                  "-1 given, expected at least 0");
  EXPECT_CONTAINS(complaint("num_classes: 2 nms_param { eta: 0 }"),
                  "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("num_classes: 2 nms_param { eta: 1.5 }"), "at most 1");
  EXPECT_CONTAINS(complaint("num_classes: 3"), "expected 1 x 3");
}

// The layers behind it see as many rows as there are.
TEST(DetectionOutputLayer, ReshapesTheLayersBehindIt) {
  TestNet net(
      "layer { name: 'in' type: 'Input' top: 'l' top: 'c' top: 'p' input_param {"
      "  shape { dim: 1 dim: 8 } shape { dim: 1 dim: 4 } shape { dim: 1 dim: 2 dim: 8 } } }"
      "layer { name: 'd' type: 'DetectionOutput' bottom: 'l' bottom: 'c' bottom: 'p' top: 'd'"
      "  detection_output_param { num_classes: 2 confidence_threshold: 0.5 } }"
      "layer { name: 'f' type: 'Flatten' bottom: 'd' top: 'f' flatten_param { axis: 1 } }");
  SetData(Simple({}).prior_values, net->FindBlob("p"));
  for (const double score : {0.75, 0.25}) {
    SetData({0, 0.75, 0, score}, net->FindBlob("c"));
    net->Forward();
    const int64_t rows = score > 0.5 ? 2 : 1;
    EXPECT_EQ(net->FindBlob("f")->shape(), (Shape{1, rows * 7}));
    EXPECT_EQ(GetData(*net->FindBlob("f"))[2], 0.75);
  }
}

}  // namespace
}  // namespace millrace::test
