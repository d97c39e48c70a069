// The figure of `make scale`: what clusters of 2 to 1,024 nodes send, receive, and reach.
#ifndef MILLRACE_BENCH_SCALE_FIGURE_H_
#define MILLRACE_BENCH_SCALE_FIGURE_H_

#include <string>
#include <vector>

#include "bench/scale/row.h"

namespace millrace::scale {

// An SVG document; rows of a kind become a curve, in the order of the nodes. `caption` goes
// below, a line each.
std::string DrawScale(const std::vector<Row>& rows, const std::vector<std::string>& caption);

}  // namespace millrace::scale

#endif  // MILLRACE_BENCH_SCALE_FIGURE_H_
