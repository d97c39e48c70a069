// Reads weights that solvers and executors may write at the same time.
#ifndef MILLRACE_WEIGHTS_READ_WEIGHTS_H_
#define MILLRACE_WEIGHTS_READ_WEIGHTS_H_

#include <cstdint>

namespace millrace::inline weights {

// Copies `count` weights to `to`, which does not overlap them. Each value is one that the weight
// had during the call.
void HogwildReadWeights(int64_t count, const float* weights, float* to);

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_READ_WEIGHTS_H_
