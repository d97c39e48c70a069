#include "bench/scale/figure.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::scale {
namespace {

// What one chart shows of a row; `bound` may be null.
struct Content {
  const char* title;
  const char* y_label;
  double Row::*value;
  double Row::*bound;
};

// Curves of one kind: a line through all sizes, markers on the simulated ones, the bound beneath.
ChartCurves CurvesOf(const std::vector<Row>& rows, const std::string& kind,
                     const Content& content) {
  ChartCurves curves;
  for (const Row& row : rows) {
    const Point point{static_cast<double>(row.nodes), row.*content.value};
    if (row.kind != kind || !(point.y > 0)) continue;  // 0: not known
    curves.line.push_back(point);
    if (!row.computed) curves.markers.push_back(point);
    if (content.bound) curves.thin.push_back({point.x, row.*content.bound});
  }
  return curves;
}

AxisRange RangeOfNodes(const std::vector<Row>& rows) {
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.nodes < b.nodes; });
  return {least->nodes / 1.1, most->nodes * 1.1, 2};
}

std::optional<AxisRange> RangeOf(const std::vector<ChartCurves>& kinds) {
  double low = 1e300, high = 0;
  for (const ChartCurves& curves : kinds) {
    for (const Curve* curve : {&curves.thin, &curves.line}) {
      for (const Point& point : *curve) {
        if (!(point.y > 0)) continue;
        low = std::min(low, point.y);
        high = std::max(high, point.y);
      }
    }
  }
  if (low > high) return std::nullopt;
  return AxisRange{low / 1.25, high * 1.25, 10};
}

}  // namespace

Figure ScaleFigure(const std::vector<Row>& rows, const std::string& caption) {
  if (rows.empty()) throw Error("nothing to draw: no sizes of clusters were given");
  static constexpr Content kContents[] = {
      {"Sent by the busiest node", "MB per sweep", &Row::max_sent, nullptr},
      {"Received by the busiest node", "MB per sweep", &Row::max_received, nullptr},
      {"Sweeps of the slowest segment", "Sweeps per second", &Row::sweeps, &Row::bound},
      {"Until the last replica has a step", "ms (mean of 16 steps)", &Row::spread_last, nullptr},
  };
  Figure figure;
  figure.thin_text = "bound: only positions pass a port";
  figure.line_text = "without a marker: computed";
  figure.markers_text = "simulated";
  figure.footnote = caption;
  figure.thin_opacity = 0.5;
  for (const Row& row : rows) {
    if (std::find(figure.runs.begin(), figure.runs.end(), row.kind) == figure.runs.end()) {
      figure.runs.push_back(row.kind);
    }
  }
  for (const Content& content : kContents) {
    Chart chart{content.title, "Nodes", content.y_label, RangeOfNodes(rows), {}, {}};
    for (const std::string& kind : figure.runs) {
      chart.runs.push_back(CurvesOf(rows, kind, content));
    }
    chart.y = RangeOf(chart.runs);
    figure.charts.push_back(std::move(chart));
  }
  return figure;
}

}  // namespace millrace::scale
