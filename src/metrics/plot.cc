#include "metrics/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"

namespace millrace::inline metrics {
namespace {

constexpr size_t kNameBytes = 40;
// Twice the number of pixels: more points make no visible difference.
constexpr size_t kThinPoints = 1800;
// The moving average spans a fortieth of the run.
constexpr int kSmoothParts = 40;

// Units in which the values of an axis up to `most` are readable.
struct Unit {
  const char* name;
  double size;
};
Unit TimeUnit(double most) {
  if (most < 300) return {"s", 1};
  if (most < 3 * 3600) return {"min", 60};
  if (most < 3 * 86400) return {"h", 3600};
  return {"days", 86400};
}
Unit IterationUnit(double most) {
  if (most < 1e4) return {"", 1};
  if (most < 1e7) return {" (thousands)", 1e3};
  return {" (millions)", 1e6};
}

// ---- Ranges ----

// Widens ends that a figure cannot distinguish.
AxisRange Widened(double low, double high, int log_base = 0) {
  if (high - low > 1e-9 * std::abs(low + high)) return {low, high, log_base};
  const double around = low + high == 0 ? 1 : 0.05 * std::abs(low + high);
  return {low - around, high + around, log_base};
}

// Finite values of the curves named, ascending.
std::vector<double> SortedValues(const Chart& chart, std::vector<Curve ChartCurves::*> curves) {
  std::vector<double> values;
  for (const ChartCurves& run : chart.runs) {
    for (const auto curve : curves) {
      for (const Point& point : run.*curve) {
        if (std::isfinite(point.y)) values.push_back(point.y);
      }
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

// `sorted` is not empty.
double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

// The x of all curves; low > high if there are none.
AxisRange ExtentOfX(const std::vector<RunCurves>& runs, CurveSet RunCurves::*set) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  AxisRange extent{kInfinity, -kInfinity};
  for (const RunCurves& run : runs) {
    const CurveSet& curves = run.*set;
    for (const Curve* curve : {&curves.train_loss, &curves.test_loss, &curves.test_accuracy}) {
      if (curve->empty()) continue;
      extent.low = std::min(extent.low, curve->front().x);
      extent.high = std::max(extent.high, curve->back().x);
    }
  }
  return extent;
}

// From 0 unless all values are far from it.
AxisRange RangeOfX(AxisRange extent, double unit) {
  double low = extent.low / unit, high = extent.high / unit;
  if (low > high) return {};
  if (low > 0 && (low < 0.5 * high || low == high)) low = 0;
  if (low == high) high = low + 1;
  // A margin keeps the last marker inside.
  return Widened(low, high + 0.015 * (high - low));
}

// Logarithmic unless a mean or a test is <= 0. Noise of single values, and losses far above those
// of the first iterations, do not extend it.
std::optional<AxisRange> RangeOfLoss(const Chart& chart) {
  const auto core = SortedValues(chart, {&ChartCurves::line, &ChartCurves::markers});
  const auto single = SortedValues(chart, {&ChartCurves::thin});
  if (core.empty()) return std::nullopt;
  double low = core.front(), high = core.back(), start = 0;
  const bool logarithmic = low > 0;
  for (const ChartCurves& run : chart.runs) {
    for (const Curve* curve : {&run.line, &run.markers}) {
      if (!curve->empty()) start = std::max(start, curve->front().y);
    }
  }
  if (start > 0) high = std::min(high, std::max(20 * start, 10 * low));
  if (!single.empty()) {
    const double below = Quantile(single, 0.02);
    low = std::min(low, logarithmic ? std::max(below, low / 4) : below);
    high = std::max(high, std::min(Quantile(single, 0.98), 3 * high));
  }
  if (logarithmic) {
    const double margin = std::pow(high / low, 0.05);
    return Widened(low / margin, high * margin, 10);
  }
  const double margin = 0.05 * (high - low);
  return Widened(low - margin, high + margin);
}

// In percent; of all tests.
std::optional<AxisRange> RangeOfAccuracy(const Chart& chart) {
  const auto values = SortedValues(chart, {&ChartCurves::markers});
  if (values.empty()) return std::nullopt;
  const double low = values.front(), high = values.back();
  const double margin = high > low ? 0.08 * (high - low) : 1;
  return Widened(std::max(low - margin, std::min(low, 0.0)),
                 std::min(high + margin, std::max(high, 100.0)));
}

// ---- Curves ----

Curve Divided(Curve curve, double unit) {
  for (Point& point : curve) point.x /= unit;
  return curve;
}

// Keeps at most `most` of the tests, because more markers would overlap; always the last one.
void Thin(size_t most, Curve* tests) {
  const size_t stride = (tests->size() + most - 1) / most;
  Curve kept;
  for (size_t i = tests->size(); i > 0; i -= std::min(i, stride)) kept.push_back((*tests)[i - 1]);
  tests->assign(kept.rbegin(), kept.rend());
}

// Puts points outside the range, such as those of a diverged run, at its edge.
void Clamp(const AxisRange& range, ChartCurves* run) {
  for (Curve* curve : {&run->thin, &run->line, &run->markers}) {
    for (Point& point : *curve) {
      if (!std::isnan(point.y)) point.y = std::clamp(point.y, range.low, range.high);
    }
  }
}

// Adds loss and accuracy over the same x axis.
void AddRow(const std::vector<RunCurves>& runs, CurveSet RunCurves::*set, const std::string& over,
            const std::string& x_label, const AxisRange& extent, double unit, Figure* figure) {
  Chart loss{"Loss over " + over, x_label, "Loss (log scale)", {}, {}, {}};
  Chart accuracy{"Test accuracy over " + over, x_label, "Test accuracy (%)", {}, {}, {}};
  for (const RunCurves& run : runs) {
    const CurveSet& curves = run.*set;
    const Curve train = Divided(curves.train_loss, unit);
    const Curve tests = Divided(curves.test_accuracy, unit);
    loss.runs.push_back({Envelope(train, kThinPoints), Smooth(train, kSmoothParts),
                         Divided(curves.test_loss, unit)});
    accuracy.runs.push_back({{}, tests, tests});
  }
  loss.x = accuracy.x = RangeOfX(extent, unit);
  loss.y = RangeOfLoss(loss);
  if (loss.y && !loss.y->log_base) loss.y_label = "Loss";
  accuracy.y = RangeOfAccuracy(accuracy);
  for (Chart* chart : {&loss, &accuracy}) {
    for (ChartCurves& run : chart->runs) {
      Thin(runs.size() <= 3 ? 30 : 14, &run.markers);
      if (chart->y) Clamp(*chart->y, &run);
      if (chart != &loss || run.line.size() != 1) continue;
      const Point mean = run.line[0];  // becomes a short dash
      run.line.push_back({mean.x + 0.008 * (loss.x.high - loss.x.low), mean.y});
    }
    figure->charts.push_back(std::move(*chart));
  }
}

// ---- Legend ----

std::string LegendText(const RunCurves& run, const Unit& time) {
  std::string text = OneLine(run.name);
  if (text.size() > kNameBytes) text = StrCat(CutText(text, kNameBytes - 1), "\u2026");
  if (run.solvers > 0) {
    text += StrCat(" (", run.solvers, run.solvers == 1 ? " solver)" : " solvers)");
  }
  if (!run.last) return text + ": no test accuracy recorded";
  char result[200];
  const auto& [percent, iteration, seconds] = *run.last;
  std::snprintf(result, sizeof(result), ": final test accuracy %.2f %% (iteration %lld, %.1f %s)",
                percent, static_cast<long long>(iteration), seconds / time.size, time.name);
  text += result;
  if (run.best->percent > percent) {
    std::snprintf(result, sizeof(result), ", best %.2f %% (iteration %lld)", run.best->percent,
                  static_cast<long long>(run.best->iteration));
    text += result;
  }
  return text;
}

}  // namespace

Figure PlotRuns(const std::vector<Run>& runs) {
  std::vector<RunCurves> curves;
  for (const Run& run : runs) curves.push_back(MakeCurves(run));
  const AxisRange times = ExtentOfX(curves, &RunCurves::by_time);
  const AxisRange iterations = ExtentOfX(curves, &RunCurves::by_iteration);
  if (times.low > times.high) {
    throw Error("nothing to plot: the runs given hold no training loss and no test");
  }
  const Unit time = TimeUnit(times.high), iteration = IterationUnit(iterations.high);
  Figure figure{{}, "training loss", "its moving average", "test", {}, "", 1};
  // More runs make the noise paler.
  figure.thin_opacity = std::clamp(0.7 / static_cast<double>(runs.size()), 0.06, 0.22);
  for (const RunCurves& run : curves) figure.runs.push_back(LegendText(run, time));
  AddRow(curves, &RunCurves::by_time, "wall time", StrCat("Wall time (", time.name, ")"), times,
         time.size, &figure);
  AddRow(curves, &RunCurves::by_iteration, "iterations", StrCat("Iteration", iteration.name),
         iterations, iteration.size, &figure);
  return figure;
}

}  // namespace millrace::inline metrics
