// The figure of one or several runs: loss and test accuracy against wall time
// and against iterations.
#ifndef MILLRACE_METRICS_PLOT_H_
#define MILLRACE_METRICS_PLOT_H_

#include <string>
#include <vector>

#include "metrics/run_curves.h"

namespace millrace {

// An SVG document of 1100 pixels by about 800 (more for many runs), the runs
// overlaid in the order given. Runs without tests, with single points, with
// numbers that are not finite, or with hundreds of thousands of rows are drawn
// as well as can be. Throws Error when `runs` is empty or has no point at all.
std::string PlotRuns(const std::vector<Run>& runs);

}  // namespace millrace

#endif  // MILLRACE_METRICS_PLOT_H_
