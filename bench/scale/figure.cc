#include "bench/scale/figure.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "metrics/axis.h"
#include "metrics/chart.h"
#include "metrics/svg.h"

namespace millrace::scale {
namespace {

constexpr double kWidth = 1100, kChartWidth = 440, kChartHeight = 262;
constexpr double kLeft = 78, kRightColumn = 630, kTop = 92, kRowPitch = 356;
constexpr double kCaptionRow = 18;
constexpr char kInk[] = "#222222", kPale[] = "#555555";

std::vector<std::string> KindsOf(const std::vector<Row>& rows) {
  std::vector<std::string> kinds;
  for (const Row& row : rows) {
    if (std::find(kinds.begin(), kinds.end(), row.kind) == kinds.end()) kinds.push_back(row.kind);
  }
  return kinds;
}

// What one graph shows of a row; `bound` may be null.
struct Graph {
  const char* id;
  const char* title;
  const char* y_label;
  double Row::*value;
  double Row::*bound;
};

// A line through all sizes, markers on those that were simulated, the bound beneath.
std::vector<ChartCurves> CurvesOf(const std::vector<Row>& rows,
                                  const std::vector<std::string>& kinds, const Graph& graph) {
  std::vector<ChartCurves> curves(kinds.size());
  for (const Row& row : rows) {
    ChartCurves& curve = curves[std::find(kinds.begin(), kinds.end(), row.kind) - kinds.begin()];
    const Point point{static_cast<double>(row.nodes), row.*graph.value};
    if (!(point.y > 0)) continue;  // not known
    curve.smooth.push_back(point);
    if (!row.computed) curve.points.push_back(point);
    if (graph.bound) curve.raw.push_back({point.x, row.*graph.bound});
  }
  return curves;
}

Axis RangeOfNodes(const std::vector<Row>& rows) {
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.nodes < b.nodes; });
  return Axis::Logarithmic(least->nodes / 1.1, most->nodes * 1.1);
}

Axis RangeOf(const std::vector<ChartCurves>& curves) {
  double low = 1e300, high = 0;
  for (const ChartCurves& curve : curves) {
    for (const Curve* part : {&curve.raw, &curve.smooth}) {
      for (const Point& point : *part) {
        if (!(point.y > 0)) continue;
        low = std::min(low, point.y);
        high = std::max(high, point.y);
      }
    }
  }
  return low > high ? Axis::Linear(0, 1) : Axis::Logarithmic(low / 1.25, high * 1.25);
}

void DrawLegend(const std::vector<std::string>& kinds, Svg* svg) {
  double x = kLeft;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const RunStyle style(i);
    svg->Line(x, 30, x + 30, 30, style.Line(2.2, 1));
    style.DrawMarker(svg, x + 15, 30);
    svg->Text(x + 38, 35, 14, "start", kinds[i], {{"class", "legend"}, {"fill", kInk}});
    x += 38 + 7.6 * static_cast<double>(CharacterCount(kinds[i])) + 30;
  }
  svg->Text(kLeft, 56, 12, "start",
            "pale: bound, if positions were all that passes a port; without a marker: computed",
            {{"fill", kPale}});
}

}  // namespace

std::string DrawScale(const std::vector<Row>& rows, const std::vector<std::string>& caption) {
  if (rows.empty()) throw Error("nothing to draw: no sizes of clusters were given");
  const std::vector<std::string> kinds = KindsOf(rows);
  static constexpr Graph kGraphs[] = {
      {"sent", "Sent by the busiest node", "MB per sweep", &Row::most_sent, nullptr},
      {"received", "Received by the busiest node", "MB per sweep", &Row::most_received, nullptr},
      {"sweeps", "Sweeps of the slowest segment", "Sweeps per second", &Row::sweeps, &Row::bound},
      {"spread", "Until the last replica has a step", "ms (mean of 16 steps)", &Row::spread_last,
       nullptr},
  };
  const double captions = kTop + 2 * kRowPitch - 10;
  Svg svg(kWidth, captions + kCaptionRow * static_cast<double>(caption.size()),
          "Simulated scale: bytes, sweeps and spread by the number of nodes");
  DrawLegend(kinds, &svg);
  const Axis x_axis = RangeOfNodes(rows);
  for (size_t i = 0; i < std::size(kGraphs); ++i) {
    const Graph& graph = kGraphs[i];
    const std::vector<ChartCurves> curves = CurvesOf(rows, kinds, graph);
    ChartSpec spec;
    spec.id = graph.id;
    spec.title = graph.title;
    spec.x_label = "Nodes";
    spec.y_label = graph.y_label;
    spec.x = i % 2 == 0 ? kLeft : kRightColumn;
    spec.y = kTop + kRowPitch * static_cast<double>(i / 2);
    spec.width = kChartWidth;
    spec.height = kChartHeight;
    DrawChart(spec, x_axis, RangeOf(curves), curves, &svg);
  }
  double y = captions;
  for (const std::string& line : caption) {
    svg.Text(kLeft, y, 12, "start", line, {{"class", "caption"}, {"fill", kPale}});
    y += kCaptionRow;
  }
  return std::move(svg).Finish();
}

}  // namespace millrace::scale
