// What the benchmarks do with their measurements.
#ifndef MILLRACE_BENCH_MEASURE_H_
#define MILLRACE_BENCH_MEASURE_H_

#include <algorithm>
#include <chrono>
#include <vector>

namespace millrace::bench {

// Of one value at least; of an even number of them, the mean of the two in the middle.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Since some time in the past.
inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_MEASURE_H_
