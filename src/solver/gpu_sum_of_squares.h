// The sum of squares of a GPU's array, for clip_gradients.
#ifndef MILLRACE_SOLVER_GPU_SUM_OF_SQUARES_H_
#define MILLRACE_SOLVER_GPU_SUM_OF_SQUARES_H_

#include <cstdint>

#include "millrace/update_rule.h"

namespace millrace::inline solver {

// Belongs to one rule and its queue.
class GpuSumOfSquares {
 public:
  // Allocates memory for the largest parameter if the solver clips gradients. Throws Error if there
  // is not enough.
  explicit GpuSumOfSquares(const UpdateContext& context);

  // Waits for the queue.
  double operator()(int64_t count, const float* values);

 private:
  static constexpr int64_t kPart = 1 << 14;  // values of a row of SquaresOfParts

  Queue& queue_;
  Buffer parts_;  // the total, then the parts; empty without clipping
  Buffer total_;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_GPU_SUM_OF_SQUARES_H_
