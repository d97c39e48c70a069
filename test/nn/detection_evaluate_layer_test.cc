#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string DetectionEvaluateText(const std::string& param) {
  return "type: 'DetectionEvaluate' detection_evaluate_param { " + param + " }";
}

struct Object {
  double image, label;
  Array box;
  double difficult = 0;
};
struct Found {
  double image, label, score;
  Array box;
};

Bottom Detections(const std::vector<Found>& found) {
  Array values;
  for (const Found& each : found) {
    values.insert(values.end(), {each.image, each.label, each.score});
    values.insert(values.end(), each.box.begin(), each.box.end());
  }
  return {{1, 1, static_cast<int64_t>(found.size()), 7}, values};
}
Bottom Truth(const std::vector<Object>& objects) {
  Array values;
  for (const Object& each : objects) {
    values.insert(values.end(), {each.image, each.label, 0});
    values.insert(values.end(), each.box.begin(), each.box.end());
    values.push_back(each.difficult);
  }
  return {{1, 1, static_cast<int64_t>(objects.size()), 8}, values};
}

Array Judge(LayerRunner* runner) {
  runner->layer().Reshape(runner->bottoms(), runner->tops());
  return runner->Output();
}
Array Judge(const std::string& param, const std::vector<Found>& found,
            const std::vector<Object>& objects) {
  const auto runner = RunnerOf(DetectionEvaluateText(param), {Detections(found), Truth(objects)});
  EXPECT_EQ(runner->top().dim(2),
            (param.find("num_classes: 3") == 0 ? 2 : 1) + static_cast<int64_t>(found.size()));
  return Judge(runner.get());
}

Array Rows(const std::vector<Array>& rows) {
  Array all;
  for (const Array& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

const Array kLeft = {0, 0, 0.5, 1}, kRight = {0.5, 0, 1, 1}, kAll = {0, 0, 1, 1},
            kMiddle = {0.25, 0, 0.75, 1};

TEST(DetectionEvaluateLayer, JudgesDetectionsByFallingScore) {
  EXPECT_EQ(Judge("num_classes: 3",
                  {{0, 2, 0.5, kRight},
                   {0, 1, 0.25, kLeft},    // the box is taken by the one with the better score
                   {0, 1, 0.75, kLeft},    //
                   {0, 1, 0.5, kMiddle},   // overlaps each by a third
                   {1, 1, 0.125, kLeft}},  // the image has no box
                  {{0, 1, kLeft}, {0, 1, kRight}, {0, 2, kRight}}),
            Rows({{-1, 1, 2, -1, -1},
                  {-1, 2, 1, -1, -1},
                  {0, 1, 0.75, 1, 0},
                  {0, 1, 0.5, 0, 1},
                  {0, 1, 0.25, 0, 1},
                  {0, 2, 0.5, 1, 0},
                  {1, 1, 0.125, 0, 1}}));
}

TEST(DetectionEvaluateLayer, TakesTheOverlapThreshold) {
  const std::vector<Found> found = {{0, 1, 0.5, kMiddle}};
  EXPECT_EQ(Judge("num_classes: 2 overlap_threshold: 0.25", found, {{0, 1, kLeft}}),
            Rows({{-1, 1, 1, -1, -1}, {0, 1, 0.5, 1, 0}}));
  // A half is at least a half.
  EXPECT_EQ(Judge("num_classes: 2", {{0, 1, 0.5, kAll}}, {{0, 1, kLeft}}),
            Rows({{-1, 1, 1, -1, -1}, {0, 1, 0.5, 1, 0}}));
}

TEST(DetectionEvaluateLayer, LeavesOutDifficultBoxesIfAsked) {
  const std::vector<Found> found = {{0, 1, 0.75, kLeft}, {0, 1, 0.5, kLeft}, {0, 1, 0.25, kRight}};
  const std::vector<Object> objects = {{0, 1, kLeft, 1}, {0, 1, kRight, 0}};
  EXPECT_EQ(Judge("num_classes: 2 evaluate_difficult_gt: false", found, objects),
            Rows({{-1, 1, 1, -1, -1}, {0, 1, 0.75, 0, 0}, {0, 1, 0.5, 0, 0}, {0, 1, 0.25, 1, 0}}));
  EXPECT_EQ(Judge("num_classes: 2", found, objects),
            Rows({{-1, 1, 2, -1, -1}, {0, 1, 0.75, 1, 0}, {0, 1, 0.5, 0, 1}, {0, 1, 0.25, 1, 0}}));
}

TEST(DetectionEvaluateLayer, CountsClassesWithoutDetectionsOrBoxes) {
  const Array none(4, -1.0);
  EXPECT_EQ(Judge("num_classes: 3", {{0, -1, -1, none}, {1, -1, -1, none}}, {{-1, -1, none}}),
            Rows({{-1, 1, 0, -1, -1}, {-1, 2, 0, -1, -1}}));
  EXPECT_EQ(Judge("num_classes: 2 background_label_id: 1", {{0, 0, 0.5, kLeft}}, {{0, 0, kLeft}}),
            Rows({{-1, 0, 1, -1, -1}, {0, 0, 0.5, 1, 0}}));
}

TEST(DetectionEvaluateLayer, ComparesInThePixelsOfTheListedImages) {
  const TempDir folder;
  WriteFile(folder / "sizes.txt", "a 1 4\nb 100 100\nc 1 4\n");
  // Boxes of a line: columns 0 to 2 and 1 to 3 of an image of 4 x 1 pixels share two of four.
  const std::vector<Found> found = {{0, 1, 0.5, {0, 0, 0.5, 0}}};
  const std::vector<Object> objects = {{0, 1, {0.25, 0, 0.75, 0}}};
  const auto runner = RunnerOf(
      DetectionEvaluateText(StrCat("num_classes: 2 name_size_file: '", folder / "sizes.txt", "'")),
      {Detections(found), Truth(objects)});
  EXPECT_EQ(Judge(runner.get())[8], 1);  // image a
  EXPECT_EQ(Judge(runner.get())[8], 0);  // image b: 26 of 76 columns
  EXPECT_EQ(Judge(runner.get())[8], 1);  // image c
  EXPECT_EQ(Judge(runner.get())[8], 1);  // the list starts again
}

TEST(DetectionEvaluateLayer, GoesOnInTheListBehindTheImagesOfTheBatch) {
  const TempDir folder;
  WriteFile(folder / "sizes.txt", "a 100 100\nb 1 4\nc 1 4\nd 100 100\n");
  const Array box = {0, 0, 0.5, 0}, other = {0.25, 0, 0.75, 0};
  const auto runner = RunnerOf(
      DetectionEvaluateText(StrCat("num_classes: 2 name_size_file: '", folder / "sizes.txt", "'")),
      {Detections({{1, 1, 0.5, box}}), Truth({{0, 1, other}, {1, 1, other}})});
  EXPECT_EQ(Judge(runner.get())[8], 1);  // image b: image a has no detection
  EXPECT_EQ(Judge(runner.get())[8], 0);  // image d
  EXPECT_EQ(Judge(runner.get())[8], 1);  // image b again
}

TEST(DetectionEvaluateLayer, FollowsBottomsOfAnotherSize) {
  const auto runner = RunnerOf(DetectionEvaluateText("num_classes: 2"),
                               {Detections({{0, 1, 0.5, kLeft}}), Truth({{0, 1, kLeft}})});
  Judge(runner.get());
  Resize(runner.get(), {Detections({{0, 1, 0.5, kLeft}, {0, 1, 0.25, kRight}}),
                        Truth({{0, 1, kLeft}, {0, 1, kRight}})});
  EXPECT_EQ(Judge(runner.get()), Rows({{-1, 1, 2, -1, -1}, {0, 1, 0.5, 1, 0}, {0, 1, 0.25, 1, 0}}));
}

TEST(DetectionEvaluateLayer, NamesARowThatIsNotValid) {
  const auto complaint = [](const std::vector<Found>& found, const std::vector<Object>& objects) {
    const auto runner =
        RunnerOf(DetectionEvaluateText("num_classes: 2"), {Detections(found), Truth(objects)});
    return ErrorOf([&] { Judge(runner.get()); });
  };
  EXPECT_CONTAINS(complaint({{0, 0, 1, kLeft}}, {{0, 1, kLeft}}), "detection row 0: label 0");
  EXPECT_CONTAINS(complaint({{0, 1, 1, kLeft}}, {{0, 2, kLeft}}), "ground truth row 0: label 2");
}

TEST(DetectionEvaluateLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param, const Shape& found = {1, 1, 2, 7},
                            const Shape& truth = {1, 1, 2, 8}) {
    return SetUpError(DetectionEvaluateText(param), {found, truth});
  };
  EXPECT_CONTAINS(complaint(""), "0 given, expected at least 1");
  EXPECT_CONTAINS(complaint("num_classes: 2 overlap_threshold: 0"), "expected more than 0");
  EXPECT_CONTAINS(complaint("num_classes: 2 name_size_file: 'none'"), "none");
  EXPECT_CONTAINS(complaint("num_classes: 2 resize_param { height: 3 }"), "height 3 and width 0");
  EXPECT_CONTAINS(complaint("num_classes: 2", {2, 7}), "expected 1 1 rows 7");
  EXPECT_CONTAINS(complaint("num_classes: 2", {1, 1, 2, 7}, {1, 1, 2, 7}), "expected 1 1 rows 8");
}

}  // namespace
}  // namespace millrace::test
