#include "metrics/plot.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "metrics/axis.h"
#include "metrics/chart.h"
#include "metrics/svg.h"

namespace millrace {
namespace {

constexpr double kWidth = 1100;
constexpr double kChartWidth = 440, kChartHeight = 262;
constexpr double kLeft = 78, kRightColumn = 630;
constexpr double kRowPitch = 356;  // from the frame of one row to the next
constexpr double kLegendRow = 22, kCaptionRow = 19;
constexpr size_t kNameCharacters = 44;
// Twice the number of pixels: more points make no visible difference.
constexpr size_t kRawPoints = 1800;
// The moving average spans a fortieth of the run.
constexpr int kSmoothParts = 40;
constexpr char kInk[] = "#222222";
constexpr char kPale[] = "#555555";

// The approximate width in the fonts that renderers have.
double TextWidth(const std::string& text, double size) {
  return 0.52 * size * static_cast<double>(CharacterCount(text));
}

std::string LegendText(const RunCurves& run) {
  const std::string name = Shortened(run.name, kNameCharacters);
  if (run.solvers <= 0) return name;
  return StrCat(name, " (", run.solvers, run.solvers == 1 ? " solver)" : " solvers)");
}

ChartCurves LossCurves(const CurveSet& set) {
  return {Envelope(set.train_loss, kRawPoints), Smooth(set.train_loss, kSmoothParts),
          set.test_loss};
}

ChartCurves AccuracyCurves(const CurveSet& set) { return {{}, {}, set.test_accuracy}; }

// ---- Legend ----

// A unit of the legend: its width, and a function that draws it.
struct LegendEntry {
  double width;
  std::function<void(double x, double y)> draw;
};

// Draws rows of entries, each row centred. Returns the y below the last one.
double DrawRows(const std::vector<LegendEntry>& entries, double y) {
  constexpr double kGap = 28;
  for (size_t begin = 0; begin < entries.size();) {
    double width = entries[begin].width;
    size_t end = begin + 1;
    while (end < entries.size() && width + kGap + entries[end].width < kWidth - 60) {
      width += kGap + entries[end++].width;
    }
    double x = (kWidth - width) / 2;
    for (; begin < end; ++begin) {
      entries[begin].draw(x, y);
      x += entries[begin].width + kGap;
    }
    y += kLegendRow;
  }
  return y;
}

std::vector<LegendEntry> RunEntries(const std::vector<RunCurves>& runs, Svg* svg) {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string text = LegendText(runs[i]);
    entries.push_back(
        {40 + TextWidth(text, 14), [=](double x, double y) {
           const RunStyle style(i);
           svg->Line(x, y - 5, x + 30, y - 5, style.Line(2.2, 1));
           style.DrawMarker(svg, x + 15, y - 5);
           svg->Text(x + 38, y, 14, "start", text, {{"class", "legend"}, {"fill", kInk}});
         }});
  }
  return entries;
}

// Legend entries that explain thin lines, thick lines and markers.
std::vector<LegendEntry> StyleEntries(Svg* svg) {
  const auto entry = [svg](const char* text, const char* width, const char* opacity, bool dot) {
    return LegendEntry{
        36 + TextWidth(text, 12), [=](double x, double y) {
          if (dot) {
            svg->Element("circle", {{"cx", Coordinate(x + 20)},
                                    {"cy", Coordinate(y - 4)},
                                    {"r", "3.8"},
                                    {"fill", kPale}});
          } else {
            svg->Line(x + 2, y - 4, x + 28, y - 4,
                      {{"stroke", kPale}, {"stroke-width", width}, {"stroke-opacity", opacity}});
          }
          svg->Text(x + 34, y, 12, "start", text, {{"fill", kPale}});
        }};
  };
  return {entry("training loss", "1", "0.5", false), entry("its moving average", "2", "1", false),
          entry("test", "", "", true)};
}

// ---- Caption ----

std::string AccuracyText(const RunCurves& run) {
  if (!run.last) return "no test accuracy recorded";
  std::string text =
      StrCat("final test accuracy ", NumberText(run.last->percent, 2), " % (iteration ",
             GroupedText(run.last->iteration), ", ", DurationText(run.last->seconds), ")");
  if (run.best->percent > run.last->percent) {
    text += StrCat(", best ", NumberText(run.best->percent, 2), " % (iteration ",
                   GroupedText(run.best->iteration), ")");
  }
  return text;
}

void DrawCaption(const std::vector<RunCurves>& runs, double y, Svg* svg) {
  for (size_t i = 0; i < runs.size(); ++i) {
    RunStyle(i).DrawMarker(svg, kLeft - 2, y - 4);
    svg->Text(kLeft + 10, y, 12.5, "start",
              StrCat(LegendText(runs[i]), ": ", AccuracyText(runs[i])),
              {{"class", "caption"}, {"fill", kInk}});
    y += kCaptionRow;
  }
}

// ---- The page ----

// Draws loss on the left and accuracy on the right, over the same x axis.
void DrawRow(const std::vector<RunCurves>& runs, CurveSet RunCurves::*set, ChartSpec spec,
             const std::string& over, Svg* svg) {
  std::vector<ChartCurves> loss, accuracy, all;
  for (const RunCurves& run : runs) {
    loss.push_back(LossCurves(run.*set));
    accuracy.push_back(AccuracyCurves(run.*set));
  }
  all = loss;
  all.insert(all.end(), accuracy.begin(), accuracy.end());
  const Axis x_axis = RangeOfX(all, spec.x_unit);
  const std::string id = spec.id;
  spec.id = "loss-" + id;
  spec.x = kLeft;
  spec.title = "Loss over " + over;
  const std::optional<Axis> loss_axis = RangeOfLoss(loss);
  spec.y_label = loss_axis && !loss_axis->logarithmic() ? "Loss" : "Loss (log scale)";
  DrawChart(spec, x_axis, loss_axis, loss, svg);
  spec.id = "accuracy-" + id;
  spec.x = kRightColumn;
  spec.title = "Test accuracy over " + over;
  spec.y_label = "Test accuracy (%)";
  spec.join_points = true;
  DrawChart(spec, x_axis, RangeOfAccuracy(accuracy), accuracy, svg);
}

double LatestTime(const std::vector<RunCurves>& runs) {
  double latest = 0;
  for (const RunCurves& run : runs) {
    for (const Curve* curve :
         {&run.by_time.train_loss, &run.by_time.test_loss, &run.by_time.test_accuracy}) {
      if (!curve->empty()) latest = std::max(latest, curve->back().x);
    }
  }
  return latest;
}

bool HasPoints(const RunCurves& run) {
  return !run.by_time.train_loss.empty() || !run.by_time.test_loss.empty() ||
         !run.by_time.test_accuracy.empty();
}

}  // namespace

std::string PlotRuns(const std::vector<Run>& runs) {
  std::vector<RunCurves> curves;
  for (const Run& run : runs) curves.push_back(MakeCurves(run));
  if (std::none_of(curves.begin(), curves.end(), HasPoints)) {
    throw Error("nothing to plot: the runs given hold no training loss and no test");
  }
  // The height of the legend determines all other positions.
  Svg measured(kWidth, 0, "");
  std::vector<LegendEntry> rows = RunEntries(curves, &measured);
  const double top = DrawRows(StyleEntries(&measured), DrawRows(rows, 30)) + 22;
  const double caption = top + 2 * kRowPitch - 14;
  const double height = caption + kCaptionRow * static_cast<double>(curves.size()) + 4;

  Svg svg(kWidth, height, "Training runs: loss and test accuracy");
  DrawRows(StyleEntries(&svg), DrawRows(RunEntries(curves, &svg), 30));
  ChartSpec spec;
  spec.width = kChartWidth;
  spec.height = kChartHeight;
  spec.y = top;
  const TimeUnit unit = UnitFor(LatestTime(curves));
  spec.id = "time";
  spec.x_unit = unit.seconds;
  spec.x_label = StrCat("Wall time (", unit.name, ")");
  DrawRow(curves, &RunCurves::by_time, spec, "wall time", &svg);
  spec.id = "iteration";
  spec.y = top + kRowPitch;
  spec.x_unit = 1;
  spec.x_label = "Iteration";
  DrawRow(curves, &RunCurves::by_iteration, spec, "iterations", &svg);
  DrawCaption(curves, caption, &svg);
  return std::move(svg).Finish();
}

}  // namespace millrace
