// The ranges of a chart's axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/chart.h"

namespace millrace {
namespace {

void AddFinite(const Curve& curve, std::vector<double>* values) {
  for (const Point& point : curve) {
    if (std::isfinite(point.y)) values->push_back(point.y);
  }
}

// `sorted` is ascending and not empty.
double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

// The highest first loss of all runs.
double HighestStart(const std::vector<ChartCurves>& runs) {
  double highest = 0;
  for (const ChartCurves& run : runs) {
    for (const Curve* curve : {&run.smooth, &run.points}) {
      const auto first = std::find_if(curve->begin(), curve->end(),
                                      [](const Point& p) { return std::isfinite(p.y); });
      if (first != curve->end()) highest = std::max(highest, first->y);
    }
  }
  return highest;
}

}  // namespace

Axis RangeOfX(const std::vector<ChartCurves>& runs, double unit) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartCurves& run : runs) {
    for (const Curve* curve : {&run.raw, &run.points}) {
      if (curve->empty()) continue;
      low = std::min(low, curve->front().x);
      high = std::max(high, curve->back().x);
    }
  }
  if (low > high) return Axis::Linear(0, 1);
  if (low > 0 && (low < 0.5 * high || low == high)) low = 0;
  if (low == high) high = low + unit;
  // A margin keeps the last marker inside.
  return Axis::Linear(low / unit, (high + 0.015 * (high - low)) / unit);
}

std::optional<Axis> RangeOfLoss(const std::vector<ChartCurves>& runs) {
  std::vector<double> core, raw;
  for (const ChartCurves& run : runs) {
    AddFinite(run.smooth, &core);
    AddFinite(run.points, &core);
    AddFinite(run.raw, &raw);
  }
  if (core.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(core.begin(), core.end());
  double low = *least, high = *most;
  const bool logarithmic = low > 0;
  if (const double start = HighestStart(runs); start > 0) {
    high = std::min(high, std::max(20 * start, 10 * low));
  }
  if (!raw.empty()) {
    std::sort(raw.begin(), raw.end());
    const double below = Quantile(raw, 0.02), above = Quantile(raw, 0.98);
    low = std::min(low, logarithmic ? std::max(below, low / 4) : below);
    high = std::max(high, std::min(above, 3 * high));
  }
  if (!logarithmic) {
    const double margin = 0.05 * (high - low);
    return Axis::Linear(low - margin, high + margin);
  }
  const double margin = std::pow(high / low, 0.05);
  return Axis::Logarithmic(low / margin, high * margin);
}

std::optional<Axis> RangeOfAccuracy(const std::vector<ChartCurves>& runs) {
  std::vector<double> values;
  for (const ChartCurves& run : runs) AddFinite(run.points, &values);
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  double low = values.front();
  const double high = values.back(), usual = Quantile(values, 0.15);
  if (usual - low > 0.5 * (high - low)) low = std::max(low, usual - 0.3 * (high - usual));
  const double margin = high > low ? 0.08 * (high - low) : 1;
  return Axis::Linear(std::max(low - margin, std::min(low, 0.0)),
                      std::min(high + margin, std::max(high, 100.0)));
}

}  // namespace millrace
