// The sum of counts of several kinds.
#ifndef MILLRACE_BASE_SUM_H_
#define MILLRACE_BASE_SUM_H_

#include <cstdint>
#include <numeric>

namespace millrace {

// 0 of none. `Counts`: a range of unsigned integers, such as the frames of each type.
template <typename Counts>
uint64_t Sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace millrace

#endif  // MILLRACE_BASE_SUM_H_
