// Loops over arrays that the compiler vectorises at -O2, which it does only if the trip count is a
// constant.
#ifndef MILLRACE_NN_LAYERS_LANES_H_
#define MILLRACE_NN_LAYERS_LANES_H_

#include <cstdint>

namespace millrace::inline nn {

// Calls body(0), ..., body(count - 1), 16 at a time. The calls may happen in any order and must be
// independent.
template <typename Body>
inline void ForEachLane(int64_t count, Body body) {
  constexpr int64_t kLanes = 16;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC ivdep
    for (int64_t lane = 0; lane < kLanes; ++lane) body(i + lane);
  }
  for (; i < count; ++i) body(i);
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LANES_H_
