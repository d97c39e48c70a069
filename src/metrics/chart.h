// One graph of a figure: its axes, and the curves of all runs on them.
#ifndef MILLRACE_METRICS_CHART_H_
#define MILLRACE_METRICS_CHART_H_

#include <optional>
#include <string>
#include <vector>

#include "metrics/axis.h"
#include "metrics/run_curves.h"
#include "metrics/svg.h"

namespace millrace {

// How a run looks, by its place among the runs: a colour that people with any
// colour vision can tell apart, a marker of its own shape, and a dash pattern
// once the colours repeat.
class RunStyle {
 public:
  explicit RunStyle(size_t index) : index_(index) {}
  std::string colour() const;
  // A line of that colour; `opacity` 1 is solid.
  Svg::Attributes Line(double width, double opacity) const;
  void DrawMarker(Svg* svg, double x, double y) const;

 private:
  size_t index_;
};

// What is drawn of a run in a loss graph; accuracy graphs need the points only.
struct ChartCurves {
  Curve raw;     // every value, pale
  Curve smooth;  // its local mean
  Curve points;  // tests: marked
};

struct ChartSpec {
  std::string id;  // "loss-time": the group's id in the document
  std::string title, x_label, y_label;
  double x = 0, y = 0, width = 0, height = 0;  // of the frame, without labels
  double x_unit = 1;                           // data x divided by this is shown
  bool join_points = false;                    // a line from test to test
};

// Draws the frame, the grid, the labels and the curves; one entry per run, x in
// data units. Without a y axis the frame says that there is nothing to show.
void DrawPanel(const ChartSpec& spec, const Axis& x_axis, const std::optional<Axis>& y_axis,
               const std::vector<ChartCurves>& runs, Svg* svg);

// Ranges that show what matters: nothing when there is no value.
// x in shown units, from 0 unless all is far from it.
Axis RangeOfX(const std::vector<ChartCurves>& runs, double unit);
// Logarithmic unless a mean or a test is <= 0. The noise of single values and
// losses far above those of the first iterations do not stretch it.
std::optional<Axis> RangeOfLoss(const std::vector<ChartCurves>& runs);
// In percent. The first steps from chance level are left out where they would
// take more than half of the height.
std::optional<Axis> RangeOfAccuracy(const std::vector<ChartCurves>& runs);

}  // namespace millrace

#endif  // MILLRACE_METRICS_CHART_H_
