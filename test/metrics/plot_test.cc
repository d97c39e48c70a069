// What figures of runs contain, and which ranges they show.
#include "metrics/figure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "test/metrics/rows.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using test::RunRow;
using test::TestRow;
using test::TrainRow;
using test::TypicalRun;
using Strings = std::vector<std::string>;
using RunData = millrace::Run;  // inside a test, Run is a member of the test

enum { kLossTime, kAccuracyTime, kLossIteration, kAccuracyIteration };  // the order of the charts

TEST(Plot, HasFourPanelsWithTitlesUnitsAndRanges) {
  const Figure figure = PlotRuns({TypicalRun("a", 2)});
  Strings titles, x_labels, y_labels;
  for (const Chart& chart : figure.charts) {
    titles.push_back(chart.title);
    x_labels.push_back(chart.x_label);
    y_labels.push_back(chart.y_label);
    EXPECT_EQ(chart.x.low, 0);
    EXPECT_EQ(chart.x.log_base, 0);
    ASSERT_TRUE(chart.y);
  }
  EXPECT_EQ(titles, (Strings{"Loss over wall time", "Test accuracy over wall time",
                             "Loss over iterations", "Test accuracy over iterations"}));
  EXPECT_EQ(x_labels, (Strings{"Wall time (s)", "Wall time (s)", "Iteration", "Iteration"}));
  EXPECT_EQ(y_labels, (Strings{"Loss (log scale)", "Test accuracy (%)", "Loss (log scale)",
                               "Test accuracy (%)"}));
  EXPECT_NEAR(figure.charts[kLossTime].x.high, 50.1, 1);
  EXPECT_NEAR(figure.charts[kLossIteration].x.high, 1000, 20);
  EXPECT_EQ(figure.charts[kLossTime].y->log_base, 10);
  EXPECT_EQ(figure.charts[kAccuracyTime].y->log_base, 0);
  EXPECT_LE(figure.charts[kLossTime].y->low, 0.03);
  EXPECT_GE(figure.charts[kLossTime].y->high, 2);
}

TEST(Plot, ShowsTimesAndIterationsInUnitsThatSuitTheRun) {
  const auto labels = [](double seconds, int64_t iterations) {
    const Figure figure = PlotRuns({{"a", {TrainRow(1, 1, 1), TrainRow(seconds, iterations, 1)}}});
    return figure.charts[kLossTime].x_label + ", " + figure.charts[kLossIteration].x_label;
  };
  EXPECT_EQ(labels(200, 9000), "Wall time (s), Iteration");
  EXPECT_EQ(labels(2000, 10000), "Wall time (min), Iteration (thousands)");
  EXPECT_EQ(labels(40000, 450000), "Wall time (h), Iteration (thousands)");
  EXPECT_EQ(labels(1e6, 20000000), "Wall time (days), Iteration (millions)");
  const Figure figure = PlotRuns({{"a", {TestRow(0, 0, 0.5, 1), TestRow(7200, 20000, 0.6, 1)}}});
  EXPECT_EQ(figure.charts[kAccuracyTime].runs[0].markers.back().x, 120);
  EXPECT_EQ(figure.charts[kAccuracyIteration].runs[0].line.back().x, 20);
  EXPECT_CONTAINS(figure.runs[0], "(iteration 20000, 120.0 min)");
}

TEST(Plot, MarksEveryTestAndDrawsTheLossPaleAndSmoothed) {
  const Figure figure = PlotRuns({TypicalRun("a", 2), TypicalRun("b", 2)});
  for (const Chart& chart : figure.charts) {
    const bool is_loss =
        &chart == &figure.charts[kLossTime] || &chart == &figure.charts[kLossIteration];
    ASSERT_EQ(chart.runs.size(), 2u);
    for (const ChartCurves& run : chart.runs) {
      EXPECT_EQ(run.thin.size(), is_loss ? 100u : 0u);
      EXPECT_EQ(run.line.size(), is_loss ? 100u : 10u);
      EXPECT_EQ(run.markers.size(), 10u);
    }
  }
  EXPECT_LT(figure.thin_opacity, 0.5);
  std::vector<RunData> many(10, TypicalRun("a", 2));
  EXPECT_LT(PlotRuns(many).thin_opacity, figure.thin_opacity);
}

TEST(Plot, MarksThirtyTestsAtMostAndAlwaysTheLastOne) {
  for (int count : {1, 29, 30, 31, 60, 61, 5000}) {
    RunData run{"a", {}};
    for (int i = 1; i <= count; ++i) run.rows.push_back(TestRow(i, i, 0.5, 1));
    for (size_t runs : {1, 4}) {
      const Figure figure = PlotRuns(std::vector<RunData>(runs, run));
      const ChartCurves& curves = figure.charts[kAccuracyIteration].runs[0];
      const size_t most = runs == 1 ? 30 : 14;
      EXPECT_LE(curves.markers.size(), most);
      EXPECT_GE(curves.markers.size(), std::min<size_t>(count, most / 2));
      EXPECT_EQ(curves.markers.back().x, curves.line.back().x);
      for (size_t i = 1; i < curves.markers.size(); ++i) {
        EXPECT_GT(curves.markers[i].x, curves.markers[i - 1].x);
      }
    }
  }
}

TEST(Plot, NamesEveryRunWithItsSolversAndItsAccuracy) {
  const RunData untested{"c", {TrainRow(1, 1, 1)}};
  const RunData fallen{"d", {TestRow(1, 10, 0.9, 1), TestRow(2, 2000, 0.8, 1)}};
  const Figure figure = PlotRuns({TypicalRun("one", 1), TypicalRun("two", 2), untested, fallen});
  ASSERT_EQ(figure.runs.size(), 4u);
  EXPECT_CONTAINS(figure.runs[0], "one (1 solver): final test accuracy 98.2");
  EXPECT_CONTAINS(figure.runs[0], " % (iteration 1000, 50.1 s)");
  EXPECT_CONTAINS(figure.runs[1], "two (2 solvers): final");
  EXPECT_EQ(figure.runs[2], "c: no test accuracy recorded");
  EXPECT_EQ(figure.runs[3],
            "d: final test accuracy 80.00 % (iteration 2000, 2.0 s), best 90.00 % (iteration 10)");
}

TEST(Plot, ShortensLongNamesAndReplacesWhatIsNotText) {
  const auto shown = [](const std::string& name) {
    const Figure figure = PlotRuns({{name, {TrainRow(1, 1, 1)}}});
    return figure.runs[0].substr(0, figure.runs[0].find(": no test"));
  };
  EXPECT_EQ(shown(std::string(300, 'x')), std::string(39, 'x') + "\u2026");
  EXPECT_EQ(shown(std::string(40, 'x')), std::string(40, 'x'));
  std::string characters, fewer;
  for (int i = 0; i < 50; ++i) (i < 19 ? fewer : characters) += "\u00e9";
  EXPECT_EQ(shown(fewer + characters), fewer + "\u2026");
  EXPECT_EQ(shown("a\nb\xff\x01"), "a?b??");
}

TEST(Plot, LeavesOutTheRangeWhereNothingWasRecorded) {
  const Figure untested = PlotRuns({{"a", {TrainRow(1, 10, 2), TrainRow(2, 20, 1)}}});
  EXPECT_TRUE(untested.charts[kLossTime].y);
  EXPECT_FALSE(untested.charts[kAccuracyTime].y);
  MetricsRow row = TestRow(1, 1, 0.5, 1);
  row.mutable_test()->mutable_outputs()->erase("loss");
  const Figure lossless = PlotRuns({{"a", {row}}});
  EXPECT_FALSE(lossless.charts[kLossIteration].y);
  EXPECT_EQ(lossless.charts[kAccuracyIteration].runs[0].markers.size(), 1u);
}

TEST(Plot, ShowsARunOfASinglePointAsADash) {
  const Figure figure = PlotRuns({{"a", {TrainRow(0, 0, 2.3)}}});
  const Curve& line = figure.charts[kLossTime].runs[0].line;
  ASSERT_EQ(line.size(), 2u);
  EXPECT_EQ(line[0].y, line[1].y);
  EXPECT_GT(line[1].x, line[0].x);
  EXPECT_LT(line[1].x, 0.1 * figure.charts[kLossTime].x.high);
}

TEST(Plot, RefusesToDrawNothing) {
  EXPECT_CONTAINS(test::ErrorOf([] { PlotRuns({}); }), "nothing to plot");
  EXPECT_CONTAINS(test::ErrorOf([] { PlotRuns({{"a", {RunRow(0, 1)}}}); }), "nothing to plot");
}

TEST(Plot, StaysSmallForHundredsOfThousandsOfRows) {
  const Figure figure = PlotRuns({TypicalRun("a", 2, 300000)});
  EXPECT_LE(figure.charts[kLossTime].runs[0].thin.size(), 1800u);
  EXPECT_LT(FigureScript(figure, "a.svg").size(), 400000u);
}

TEST(Plot, TakesNumbersOfAnyKind) {
  for (double value : test::kOddNumbers) {
    for (double time : test::kOddNumbers) {
      for (const Chart& chart : PlotRuns({test::OddRun(time, value)}).charts) {
        EXPECT_LT(chart.x.low, chart.x.high) << value << " at " << time;
        EXPECT_TRUE(std::isfinite(chart.x.high - chart.x.low));
        if (!chart.y) continue;
        EXPECT_LT(chart.y->low, chart.y->high) << value << " at " << time;
        EXPECT_TRUE(std::isfinite(chart.y->high - chart.y->low));
        EXPECT_TRUE(!chart.y->log_base || chart.y->low > 0) << value << " at " << time;
      }
    }
  }
}

TEST(Plot, LetsADivergedRunSpoilNoOther) {
  RunData diverged{"b", {RunRow(0, 1)}};
  for (int i = 0; i < 100; ++i) {
    diverged.rows.push_back(TrainRow(i, i * 10, i < 40 ? 2.0 : i < 70 ? 1e20 : std::nan("")));
  }
  const Figure figure = PlotRuns({TypicalRun("a", 1), diverged});
  EXPECT_LE(figure.charts[kLossTime].y->high, 200);
}

TEST(Plot, CutsNoPointOff) {
  RunData run{"a", {TestRow(0, 0, 0.1, 2)}};
  for (int i = 1; i <= 20; ++i) {
    run.rows.push_back(TestRow(i, i * 500, 0.98 + 0.0005 * i, i == 7 ? 1e9 : 0.1));
    run.rows.push_back(TrainRow(i, i * 500, i == 12 ? 1e20 : 0.1));
  }
  for (const Chart& chart : PlotRuns({run}).charts) {
    ASSERT_TRUE(chart.y);
    for (const Curve* curve : {&chart.runs[0].thin, &chart.runs[0].line, &chart.runs[0].markers}) {
      for (const Point& point : *curve) {
        EXPECT_LE(point.y, chart.y->high) << chart.title;
        EXPECT_GE(point.y, chart.y->low) << chart.title;
      }
    }
  }
  const Chart accuracy = PlotRuns({run}).charts[kAccuracyTime];
  EXPECT_DOUBLE_EQ(accuracy.runs[0].markers[0].y, 10);
}

TEST(Plot, UsesALinearScaleForLossesThatAreNotPositive) {
  const Figure figure = PlotRuns({{"a", {TrainRow(1, 1, 2), TrainRow(2, 2, -1)}}});
  EXPECT_EQ(figure.charts[kLossTime].y_label, "Loss");
  EXPECT_EQ(figure.charts[kLossTime].y->log_base, 0);
}

TEST(Plot, BeginsAtZeroUnlessAllValuesAreFarFromIt) {
  const auto range = [](int64_t first, int64_t last) {
    return PlotRuns({{"a", {TrainRow(1, first, 1), TrainRow(2, last, 1)}}})
        .charts[kLossIteration]
        .x;
  };
  EXPECT_EQ(range(10, 1000).low, 0);
  EXPECT_EQ(range(499, 1000).low, 0);
  EXPECT_EQ(range(5000, 6000).low, 5000);
  EXPECT_EQ(range(700, 700).low, 0);
  EXPECT_GT(range(0, 0).high, 0);
}

}  // namespace
}  // namespace millrace
