// What a figure shows of a run: curves over wall time and over iterations, made
// from the rows of its metrics file. Pure functions.
#ifndef MILLRACE_METRICS_RUN_CURVES_H_
#define MILLRACE_METRICS_RUN_CURVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/metrics.pb.h"

namespace millrace {

// A run as its metrics file tells it.
struct Run {
  std::string name;              // for the legend: a file's name, for example
  std::vector<MetricsRow> rows;  // in the order of the file
};

struct Point {
  double x = 0;
  double y = 0;  // NaN: a gap
};
using Curve = std::vector<Point>;  // x never falls

// The same measurements against one of the two x axes.
struct CurveSet {
  Curve train_loss;     // as logged; values that are not finite are gaps
  Curve test_loss;      // finite values only, as is
  Curve test_accuracy;  // in percent
};

struct RunCurves {
  std::string name;
  int solvers = 0;        // 0: unknown
  CurveSet by_time;       // x in seconds of training, all parts of the run added up
  CurveSet by_iteration;  // x is the global iteration
  struct Accuracy {
    double percent = 0;
    int64_t iteration = 0;
    double seconds = 0;
  };
  std::optional<Accuracy> last, best;
};

// A file with several `run` rows is a run that was resumed: the time of each
// part begins where the part before ended. Against iterations, what a resumed
// run computes again replaces what it had computed before.
//
// Of several test nets the first is shown. The loss is the test output named
// "loss", or else the first in alphabetical order that has "loss" in its name;
// the accuracy likewise, by "accuracy", then "acc", "top-1" or "top1". Rows whose
// time is not finite are left out; values beyond 1e30 count as not finite.
RunCurves MakeCurves(const Run& run);

// At most about `limit` points that look like the whole curve when drawn: of
// each stretch the lowest and the highest point stay.
Curve Envelope(const Curve& curve, size_t limit);

// The curve's local mean: about 1/`parts` of its points around each point. Gaps
// do not count. At most about 1000 points.
Curve Smooth(const Curve& curve, int parts);

}  // namespace millrace

#endif  // MILLRACE_METRICS_RUN_CURVES_H_
