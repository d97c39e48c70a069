// What bounds a data layer: the database alone, and the image decoder alone.
#ifndef MILLRACE_BENCH_DATA_BENCH_BOUNDS_H_
#define MILLRACE_BENCH_DATA_BENCH_BOUNDS_H_

#include <string>
#include <vector>

namespace millrace::bench {

// Records a second of a walk over an LMDB with LMDB's own cursor that reads a byte of every cache
// line, for `seconds`.
double WalkRate(const std::string& path, double seconds);

// Images a second that libjpeg-turbo alone decodes to rows of blue, green and red, on one thread,
// for `seconds`.
double DecodeRate(const std::vector<std::string>& jpegs, double seconds);

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_DATA_BENCH_BOUNDS_H_
