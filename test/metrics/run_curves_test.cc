#include "metrics/run_curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "metrics/metrics_writer.h"
#include "test/metrics/rows.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::RunRow;
using test::TestRow;
using test::TrainRow;

std::vector<double> Xs(const Curve& curve) {
  std::vector<double> xs;
  for (const Point& point : curve) xs.push_back(point.x);
  return xs;
}
std::vector<double> Ys(const Curve& curve) {
  std::vector<double> ys;
  for (const Point& point : curve) ys.push_back(point.y);
  return ys;
}
using Doubles = std::vector<double>;

TEST(RunCurves, SeparateTrainingFromTests) {
  const RunCurves curves = MakeCurves(
      {"a", {RunRow(0, 4), TrainRow(1, 10, 2.5), TestRow(2, 20, 0.5, 1.5), TrainRow(3, 30, 2)}});
  EXPECT_EQ(curves.name, "a");
  EXPECT_EQ(curves.solvers, 4);
  EXPECT_EQ(Xs(curves.by_time.train_loss), (Doubles{1, 3}));
  EXPECT_EQ(Xs(curves.by_iteration.train_loss), (Doubles{10, 30}));
  EXPECT_EQ(Ys(curves.by_time.train_loss), (Doubles{2.5, 2}));
  EXPECT_EQ(Xs(curves.by_time.test_accuracy), (Doubles{2}));
  EXPECT_EQ(Ys(curves.by_time.test_accuracy), (Doubles{50}));
  EXPECT_EQ(Ys(curves.by_iteration.test_loss), (Doubles{1.5}));
}

// Metrics rows of a clustered run give the same curves as those of one machine.
TEST(RunCurves, PassOverWhatSegmentsCount) {
  MetricsRow row = TrainRow(1, 10, 2.5);
  for (const char* name : {"lan.frames_out", "lan.loss", "accuracy"}) {
    (*row.mutable_segments())[name] = 7;
  }
  const RunCurves curves = MakeCurves({"a", ParseMetrics(MetricsLine(row) + "\n", "a")});
  EXPECT_EQ(Ys(curves.by_time.train_loss), (Doubles{2.5}));
  EXPECT_EQ(Xs(curves.by_iteration.train_loss), (Doubles{10}));
  EXPECT_TRUE(curves.by_time.test_loss.empty());
  EXPECT_TRUE(curves.by_time.test_accuracy.empty());
}

TEST(RunCurves, LetTheTimeOfAResumedRunContinue) {
  const RunCurves curves = MakeCurves({"a",
                                       {RunRow(0, 1), TrainRow(10, 100, 1), RunRow(100, 1),
                                        TrainRow(5, 150, 1), RunRow(150, 1), TrainRow(1, 160, 1)}});
  EXPECT_EQ(Xs(curves.by_time.train_loss), (Doubles{10, 15, 16}));
  EXPECT_EQ(Xs(curves.by_iteration.train_loss), (Doubles{100, 150, 160}));
}

TEST(RunCurves, ReplaceWhatAResumedRunComputesAgainAgainstIterationsOnly) {
  const RunCurves curves = MakeCurves(
      {"a",
       {RunRow(0, 1), TrainRow(1, 100, 1), TrainRow(2, 200, 2), TestRow(2.5, 200, 0.2, 1),
        RunRow(100, 1), TrainRow(1, 150, 3), TrainRow(2, 200, 4), TestRow(2.5, 200, 0.3, 1)}});
  EXPECT_EQ(Xs(curves.by_iteration.train_loss), (Doubles{100, 150, 200}));
  EXPECT_EQ(Ys(curves.by_iteration.train_loss), (Doubles{1, 3, 4}));
  EXPECT_EQ(Ys(curves.by_iteration.test_accuracy), (Doubles{30}));
  EXPECT_EQ(Ys(curves.by_time.train_loss), (Doubles{1, 2, 3, 4}));
  EXPECT_EQ(Ys(curves.by_time.test_accuracy), (Doubles{20, 30}));
}

TEST(RunCurves, NameTheLastAndTheBestAccuracy) {
  const RunCurves curves =
      MakeCurves({"a", {TestRow(1, 10, 0.5, 1), TestRow(2, 20, 0.9, 1), TestRow(3, 30, 0.8, 1)}});
  ASSERT_TRUE(curves.last && curves.best);
  EXPECT_EQ(curves.last->percent, 80);
  EXPECT_EQ(curves.last->iteration, 30);
  EXPECT_EQ(curves.last->seconds, 3);
  EXPECT_EQ(curves.best->percent, 90);
  EXPECT_EQ(curves.best->iteration, 20);
  EXPECT_FALSE(MakeCurves({"b", {TrainRow(1, 1, 1)}}).last);
}

TEST(RunCurves, ShowTheFirstOfSeveralTestNets) {
  const RunCurves curves =
      MakeCurves({"a", {TestRow(1, 10, 0.5, 1, 2), TestRow(1, 10, 0.7, 1, 1)}});
  EXPECT_EQ(Ys(curves.by_time.test_accuracy), (Doubles{70}));
}

TEST(RunCurves, FindTheAccuracyAndTheLossUnderTheNamesThatNetsGiveThem) {
  const auto accuracy = [](std::map<std::string, double> outputs) {
    MetricsRow row = TestRow(1, 1, 0, 0);
    row.mutable_test()->mutable_outputs()->clear();
    for (const auto& [name, value] : outputs)
      (*row.mutable_test()->mutable_outputs())[name] = value;
    const RunCurves curves = MakeCurves({"a", {row}});
    const Curve& curve = curves.by_time.test_accuracy;
    return curve.empty() ? -1 : curve[0].y;
  };
  EXPECT_EQ(accuracy({{"accuracy", 0.5}, {"accuracy_top5", 0.75}, {"acc", 0.25}}), 50);
  EXPECT_EQ(accuracy({{"accuracy_top1", 0.5}, {"accuracy_top5", 0.75}}), 50);
  EXPECT_EQ(accuracy({{"loss3/top-1", 0.5}, {"loss3/top-5", 0.75}}), 50);
  EXPECT_EQ(accuracy({{"loss", 0.5}}), -1);
}

TEST(RunCurves, LeaveOutWhatCannotBeDrawn) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const RunCurves curves =
      MakeCurves({"a",
                  {TrainRow(1, 1, nan), TrainRow(2, 2, infinity), TrainRow(nan, 3, 1),
                   TrainRow(infinity, 3, 1), TestRow(4, 4, nan, infinity), TrainRow(5, 5, 1)}});
  ASSERT_EQ(curves.by_time.train_loss.size(), 3u);
  EXPECT_TRUE(std::isnan(curves.by_time.train_loss[0].y));
  EXPECT_TRUE(std::isnan(curves.by_time.train_loss[1].y));
  EXPECT_TRUE(curves.by_time.test_loss.empty());
  EXPECT_TRUE(curves.by_time.test_accuracy.empty());
  EXPECT_FALSE(curves.last);
}

TEST(Envelope, KeepsTheExtremesOfEveryStretch) {
  Rng rng(test::Seed(), {1});
  Curve curve;
  for (int i = 0; i < 100000; ++i) curve.push_back({double(i), rng.Uniform()});
  curve[12345].y = 7;
  curve[54321].y = -7;
  const Curve kept = Envelope(curve, 1000);
  EXPECT_LE(kept.size(), 1000u);
  EXPECT_GE(kept.size(), 500u);
  const auto ys = Ys(kept);
  EXPECT_EQ(*std::max_element(ys.begin(), ys.end()), 7);
  EXPECT_EQ(*std::min_element(ys.begin(), ys.end()), -7);
  for (size_t i = 1; i < kept.size(); ++i) ASSERT_LT(kept[i - 1].x, kept[i].x);
}

TEST(Envelope, LeavesShortCurvesAsTheyAreAndKeepsGaps) {
  const Curve three = {{1, 1}, {2, std::nan("")}, {3, 3}};
  EXPECT_EQ(Envelope(three, 3).size(), 3u);
  Curve curve(1000, Point{0, 1});
  for (size_t i = 0; i < curve.size(); ++i) curve[i].x = double(i);
  for (size_t i = 500; i < curve.size(); ++i) curve[i].y = std::nan("");
  const Curve kept = Envelope(curve, 20);
  EXPECT_TRUE(std::isnan(kept.back().y));
  EXPECT_EQ(kept.front().y, 1);
}

TEST(Smooth, FollowsTheMeanOfANoisyCurve) {
  Rng rng(test::Seed(), {2});
  for (size_t count : {size_t{5000}, size_t{200000}}) {
    Curve curve;
    for (size_t i = 0; i < count; ++i) {
      curve.push_back({double(i), 1 + double(i) / double(count) + rng.Gaussian()});
    }
    const Curve smooth = Smooth(curve, 40);
    ASSERT_LE(smooth.size(), 1000u);
    for (size_t i = 50; i < smooth.size(); ++i) {
      ASSERT_NEAR(smooth[i].y, 1 + smooth[i].x / double(count), 0.8) << i;
    }
  }
}

TEST(Smooth, PassesOverGapsAndTakesAnyLength) {
  EXPECT_TRUE(Smooth({}, 40).empty());
  EXPECT_TRUE(Smooth({{1, std::nan("")}}, 40).empty());
  EXPECT_EQ(Ys(Smooth({{1, 5}}, 40)), (Doubles{5}));
  EXPECT_EQ(Ys(Smooth({{1, 5}, {2, std::nan("")}, {3, 7}}, 40)), (Doubles{5, 7}));
}

}  // namespace
}  // namespace millrace
