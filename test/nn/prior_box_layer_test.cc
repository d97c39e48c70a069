#include <cmath>

#include "test/nn/loss_support.h"

namespace millrace::test {
namespace {

std::string PriorBoxText(const std::string& param) {
  return "type: 'PriorBox' prior_box_param { " + param + " }";
}

std::unique_ptr<LayerRunner> Runner(const std::string& param, const Shape& map = {2, 5, 2, 3},
                                    const Shape& image = {2, 3, 40, 60}) {
  return RunnerOf(PriorBoxText(param),
                  {{map, Array(ShapeCount(map), 0.0)}, {image, Array(ShapeCount(image), 0.0)}});
}

struct Size {
  double width, height;
};

// Boxes of these sizes in pixels at the centre of each cell.
Array Boxes(const std::vector<Size>& sizes, int64_t rows, int64_t columns, double height,
            double width, double step_h, double step_w, double offset) {
  Array values;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      for (const Size& size : sizes) {
        const double x = (static_cast<double>(j) + offset) * step_w;
        const double y = (static_cast<double>(i) + offset) * step_h;
        values.push_back((x - size.width / 2) / width);
        values.push_back((y - size.height / 2) / height);
        values.push_back((x + size.width / 2) / width);
        values.push_back((y + size.height / 2) / height);
      }
    }
  }
  return values;
}

Array WithVariances(Array boxes, const Array& variances) {
  const size_t count = boxes.size();
  for (size_t i = 0; i < count; ++i) boxes.push_back(variances[i % variances.size()]);
  return boxes;
}

TEST(PriorBoxLayer, PlacesBoxesOfEachSizeAndRatioAtEachCell) {
  const auto runner = Runner("min_size: 10 max_size: 14 aspect_ratio: 2 aspect_ratio: 3");
  const double w = std::sqrt(2), v = std::sqrt(3), between = std::sqrt(140);
  const Array expected = WithVariances(Boxes({{10, 10},
                                              {between, between},
                                              {10 * w, 10 / w},
                                              {10 / w, 10 * w},
                                              {10 * v, 10 / v},
                                              {10 / v, 10 * v}},
                                             2, 3, 40, 60, 20, 20, 0.5),
                                       {0.1});
  EXPECT_EQ(runner->top().shape(), (Shape{1, 2, 2 * 3 * 6 * 4}));
  EXPECT_EQ(Diff(expected, runner->Output()), "");
}

TEST(PriorBoxLayer, GoesThroughItsSizesInTurn) {
  const auto runner =
      Runner("min_size: 10 min_size: 20.9 max_size: 14 max_size: 30.9 aspect_ratio: 2 flip: false");
  const double w = std::sqrt(2), a = std::sqrt(140), b = std::sqrt(600);  // whole pixels
  const Array expected =
      WithVariances(Boxes({{10, 10}, {a, a}, {10 * w, 10 / w}, {20, 20}, {b, b}, {20 * w, 20 / w}},
                          2, 3, 40, 60, 20, 20, 0.5),
                    {0.1});
  EXPECT_EQ(Diff(expected, runner->Output()), "");
}

TEST(PriorBoxLayer, SkipsRatiosThatAreThere) {
  // 0.5 is there as the flip of 2.
  EXPECT_EQ(Runner("min_size: 10 aspect_ratio: 1 aspect_ratio: 2 aspect_ratio: 2 aspect_ratio: 0.5")
                ->top()
                .dim(2),
            6 * 3 * 4);
  EXPECT_EQ(Runner("min_size: 10 aspect_ratio: 2 aspect_ratio: 0.5 flip: false")->top().dim(2),
            6 * 3 * 4);
}

TEST(PriorBoxLayer, TakesTheImageStepAndOffsetAsGiven) {
  const auto runner = Runner(
      "min_size: 8 img_h: 100 img_w: 200 step_h: 9 step_w: 7 offset: 0.25 variance: 0.1"
      " variance: 0.2 variance: 0.3 variance: 0.4");
  const Array expected =
      WithVariances(Boxes({{8, 8}}, 2, 3, 100, 200, 9, 7, 0.25), {0.1f, 0.2f, 0.3f, 0.4f});
  EXPECT_EQ(Diff(expected, runner->Output()), "");
  const auto square = Runner("min_size: 8 img_size: 50 step: 10 variance: 0.5");
  EXPECT_EQ(
      Diff(WithVariances(Boxes({{8, 8}}, 2, 3, 50, 50, 10, 10, 0.5), {0.5}), square->Output()), "");
}

TEST(PriorBoxLayer, ClipsToTheImage) {
  const auto runner = Runner("min_size: 30 clip: true");
  Array expected = Boxes({{30, 30}}, 2, 3, 40, 60, 20, 20, 0.5);
  for (double& edge : expected) edge = std::min(1.0, std::max(0.0, edge));
  EXPECT_EQ(Diff(WithVariances(expected, {0.1}), runner->Output()), "");
}

TEST(PriorBoxLayer, NeedsNoImageIfItsSizeIsGiven) {
  const auto runner =
      RunnerOf(PriorBoxText("min_size: 8 img_size: 50"), {{{1, 2, 2, 2}, Array(8, 0.0)}});
  EXPECT_EQ(
      Diff(WithVariances(Boxes({{8, 8}}, 2, 2, 50, 50, 25, 25, 0.5), {0.1}), runner->Output()), "");
  EXPECT_CONTAINS(SetUpError(PriorBoxText("min_size: 8"), {{1, 2, 2, 2}}),
                  "expected 2 (the image)");
}

TEST(PriorBoxLayer, FollowsBottomsOfAnotherSize) {
  const auto runner = Runner("min_size: 10");
  runner->Forward();
  Resize(runner.get(), {{{1, 5, 3, 1}, Array(15, 0.0)}, {{1, 3, 30, 20}, Array(1800, 0.0)}});
  EXPECT_EQ(
      Diff(WithVariances(Boxes({{10, 10}}, 3, 1, 30, 20, 10, 20, 0.5), {0.1}), runner->Output()),
      "");
}

TEST(PriorBoxLayer, HasNoGradient) {
  const auto runner = Runner("min_size: 10");
  EXPECT_FALSE(runner->layer().AllowBackward(0));
  EXPECT_FALSE(runner->layer().AllowBackward(1));
}

TEST(PriorBoxLayer, RefusesBadSettings) {
  const auto complaint = [](const std::string& param) {
    return SetUpError(PriorBoxText(param), {{1, 2, 2, 2}, {1, 3, 20, 20}});
  };
  EXPECT_CONTAINS(complaint(""), "missing, expected at least one");
  EXPECT_CONTAINS(complaint("min_size: 0"), "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 max_size: 9"), "expected more than min_size[0]: 9");
  EXPECT_CONTAINS(complaint("min_size: 9 max_size: 10 max_size: 11"), "one per min_size: 1");
  EXPECT_CONTAINS(complaint("min_size: 9 aspect_ratio: -1"), "-1 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 variance: 0"), "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 variance: 1 variance: 1"), "none, one or four");
  EXPECT_CONTAINS(complaint("min_size: 9 img_size: 1 img_h: 1 img_w: 1"), "given beside img_h");
  EXPECT_CONTAINS(complaint("min_size: 9 img_h: 10"), "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 img_size: 0"), "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 step: 1 step_h: 1 step_w: 1"), "given beside step_h");
  EXPECT_CONTAINS(complaint("min_size: 9 step_w: 2"), "0 given, expected more than 0");
  EXPECT_CONTAINS(complaint("min_size: 9 step: 0"), "0 given, expected more than 0");
}

}  // namespace
}  // namespace millrace::test
