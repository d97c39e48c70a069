// One chart of a figure: its axes and the curves of all runs.
#ifndef MILLRACE_METRICS_CHART_H_
#define MILLRACE_METRICS_CHART_H_

#include <optional>
#include <string>
#include <vector>

#include "metrics/axis.h"
#include "metrics/run_curves.h"
#include "metrics/svg.h"

namespace millrace {

// The style of a run, by its index among the runs: a colour that people with any colour vision can
// distinguish, a marker shape, and a dash pattern once the colours repeat.
class RunStyle {
 public:
  explicit RunStyle(size_t index) : index_(index) {}
  std::string colour() const;
  // Attributes of a line in that colour; `opacity` 1 is solid.
  Svg::Attributes Line(double width, double opacity) const;
  void DrawMarker(Svg* svg, double x, double y) const;

 private:
  size_t index_;
};

// The curves of one run in a loss chart; accuracy charts use only the points.
struct ChartCurves {
  Curve raw;     // every value, pale
  Curve smooth;  // local mean of raw
  Curve points;  // tests, with markers
};

struct ChartSpec {
  std::string id;  // "loss-time": the group's id in the document
  std::string title, x_label, y_label;
  double x = 0, y = 0, width = 0, height = 0;  // of the frame, without labels
  double x_unit = 1;                           // x values in the data are divided by this
  bool join_points = false;                    // draw lines between tests
};

// Draws the frame, the grid, the labels and the curves; one entry per run, x in data units. Without
// a y axis it draws a note that nothing was recorded.
void DrawChart(const ChartSpec& spec, const Axis& x_axis, const std::optional<Axis>& y_axis,
               const std::vector<ChartCurves>& runs, Svg* svg);

// Ranges that show the relevant values; nullopt if there are none. RangeOfX is in shown units, and
// begins at 0 unless all values are far from it.
Axis RangeOfX(const std::vector<ChartCurves>& runs, double unit);
// Logarithmic unless a mean or a test is <= 0. Noise of single values, and losses far above those
// of the first iterations, do not extend it.
std::optional<Axis> RangeOfLoss(const std::vector<ChartCurves>& runs);
// In percent. Leaves out the first steps from chance level if they would take more than half of the
// height.
std::optional<Axis> RangeOfAccuracy(const std::vector<ChartCurves>& runs);

}  // namespace millrace

#endif  // MILLRACE_METRICS_CHART_H_
