// Sum over a range of counters.
#ifndef MILLRACE_BASE_SUM_H_
#define MILLRACE_BASE_SUM_H_

#include <cstdint>
#include <numeric>

namespace millrace {

// `Counts` is a range of unsigned integers, such as frame counts by type. An empty range sums to 0.
template <typename Counts>
uint64_t Sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace millrace

#endif  // MILLRACE_BASE_SUM_H_
