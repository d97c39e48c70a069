// The curves of a run, over wall time and over iterations, from the rows of its metrics file. Pure
// functions.
#ifndef MILLRACE_METRICS_RUN_CURVES_H_
#define MILLRACE_METRICS_RUN_CURVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/metrics.pb.h"

namespace millrace::inline metrics {

// The contents of a run's metrics file.
struct Run {
  std::string name;              // for the legend, for example a file's name
  std::vector<MetricsRow> rows;  // in the order of the file
};

struct Point {
  double x = 0;
  double y = 0;  // NaN: a gap
};
using Curve = std::vector<Point>;  // x never decreases

// The same measurements over one of the two x axes.
struct CurveSet {
  Curve train_loss;     // as logged; values that are not finite are gaps
  Curve test_loss;      // as logged, finite values only
  Curve test_accuracy;  // in percent
};

struct RunCurves {
  std::string name;
  int solvers = 0;        // 0: unknown
  CurveSet by_time;       // x in seconds of training, summed over all parts of the run
  CurveSet by_iteration;  // x is the global iteration
  struct Accuracy {
    double percent = 0;
    int64_t iteration = 0;
    double seconds = 0;
  };
  std::optional<Accuracy> last, best;
};

// A file with several `run` rows belongs to a resumed run. The time of each part begins at the end
// of the part before. Over iterations, the values that a resumed run computes again replace the
// earlier ones.
//
// Shows the first of several test nets. The loss is the test output named "loss", or else the first
// in alphabetical order whose name contains "loss". The accuracy is selected likewise, by
// "accuracy", then "acc", "top-1" or "top1". Rows whose time is not finite are left out. Values
// beyond 1e30 count as not finite.
RunCurves MakeCurves(const Run& run);

// At most about `limit` points that look like the whole curve when drawn: keeps the lowest and the
// highest point of each section.
Curve Envelope(const Curve& curve, size_t limit);

// The local mean of the curve, over about 1/`parts` of its points around each point. Gaps do not
// count. At most about 1000 points.
Curve Smooth(const Curve& curve, int parts);

}  // namespace millrace::inline metrics

#endif  // MILLRACE_METRICS_RUN_CURVES_H_
