// A figure of one or several runs: loss and test accuracy over wall time and over iterations.
#ifndef MILLRACE_METRICS_PLOT_H_
#define MILLRACE_METRICS_PLOT_H_

#include <vector>

#include "metrics/figure.h"
#include "metrics/run_curves.h"

namespace millrace::inline metrics {

// Returns four charts with the runs overlaid in the order given. Accepts runs without tests, with
// single points, with numbers that are not finite, and with hundreds of thousands of rows. Throws
// Error if `runs` is empty or has no points.
Figure PlotRuns(const std::vector<Run>& runs);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_PLOT_H_
