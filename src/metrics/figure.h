#ifndef MILLRACE_METRICS_FIGURE_H_
#define MILLRACE_METRICS_FIGURE_H_

#include <optional>
#include <string>
#include <vector>

#include "metrics/run_curves.h"

namespace millrace::inline metrics {

// Runs gnuplot (Debian package gnuplot-nox), which draws all figures.

// Runs gnuplot without a shell and without the user's start-up files. `script` is its standard
// input, so paths never appear in it; the picture that it writes to standard output replaces the
// file `path` when gnuplot has succeeded. Throws Error and leaves `path` as it was if gnuplot is
// not installed (the message names the package) or fails. Blocks; thread-safe.
void RunGnuplot(const std::string& script, const std::string& path);

// `text` as a string literal of a gnuplot script, which gnuplot cannot take for anything else:
// octal escapes stand for all ASCII characters other than letters and spaces. (Within
// double quotes gnuplot runs commands in backquotes; within single quotes version 5.4 misreads
// quotes.) Characters that are not printable become '?'. Commands that show the text need
// "noenhanced".
std::string GnuplotText(const std::string& text);

// A figure of several charts, and the gnuplot script that draws it. Pure functions of the data
// given.

// The range that an axis shows: finite, low < high, and low > 0 on a logarithmic axis.
struct AxisRange {
  double low = 0, high = 1;
  int log_base = 0;  // 0: linear
};

// One run in one chart. Any of these may be empty.
struct ChartCurves {
  Curve thin;     // pale, below all others
  Curve line;     // of two points at least
  Curve markers;  // not joined
};

struct Chart {
  std::string title;  // a constant: gnuplot interprets its markup
  std::string x_label, y_label;
  AxisRange x;
  std::optional<AxisRange> y;  // nullopt: nothing was recorded, and the chart says so
  std::vector<ChartCurves> runs;
};

struct Figure {
  std::vector<std::string> runs;                   // the legend, a line for each; at least one
  std::string thin_text, line_text, markers_text;  // the legend of the marks
  std::vector<Chart> charts;                       // two in a row; at least one
  std::string footnote;
  double thin_opacity = 1;
};

// A picture of 1100 by about 800 pixels, higher for many runs: PNG (of twice as many pixels) if the
// name of the file ends in ".png", otherwise SVG. Texts other than titles of charts are shown
// literally.
std::string FigureScript(const Figure& figure, const std::string& path);

// A figure of one or several runs: loss and test accuracy over wall time and over iterations.
// Returns four charts with the runs overlaid in the order given. Accepts runs without tests, with
// single points, with numbers that are not finite, and with hundreds of thousands of rows. Throws
// Error if `runs` is empty or has no points.
Figure PlotRuns(const std::vector<Run>& runs);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_FIGURE_H_
