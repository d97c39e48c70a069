// The figure of `make scale`: what clusters of 2 to 1,024 nodes send, receive, and reach.
#ifndef MILLRACE_BENCH_SCALE_FIGURE_H_
#define MILLRACE_BENCH_SCALE_FIGURE_H_

#include <string>
#include <vector>

#include "bench/scale/row.h"
#include "metrics/figure.h"

namespace millrace::scale {

// Rows of a kind become a curve, in the order of the nodes. `caption` goes below. Throws Error if
// there are no rows.
Figure ScaleFigure(const std::vector<Row>& rows, const std::string& caption);

}  // namespace millrace::scale

#endif  // MILLRACE_BENCH_SCALE_FIGURE_H_
