// The parameters that an update rule changes on a GPU, as a table of rows (param_rows.h) there.
#ifndef MILLRACE_SOLVER_GPU_PARAMS_H_
#define MILLRACE_SOLVER_GPU_PARAMS_H_

#include <cstdint>

#include "device/kernel.h"
#include "millrace/update_rule.h"
#include "solver/param_rows.h"

namespace millrace::inline solver {

class GpuParams {
 public:
  // Allocates the table, and memory for sums of squares if the solver clips gradients. Throws Error
  // if there is not enough.
  explicit GpuParams(const UpdateContext& context);
  // Waits for the work that uses the table.
  ~GpuParams();
  GpuParams(const GpuParams&) = delete;
  GpuParams& operator=(const GpuParams&) = delete;

  // Enqueues `kernel`, whose pointers are to the flat arrays, for all parameters but those with an
  // lr_mult of 0. `rate` and `decay` are those of the solver.
  template <typename Kernel>
  void Update(const Kernel& kernel, float rate, float decay, bool l1) {
    Launch(queue_, rows_, UpdateOfRows<Kernel>{kernel, rate, decay, l1, table_.get<ParamRow>()});
  }

  // For UpdateRule::SumOfSquares, which is called for one of these parameters after the other and
  // whose results are added up. The first call computes the sum of all parameters, in one launch,
  // and waits for the queue; the others return 0. `gradients`: those of the parameter.
  double SumOfSquares(const float* gradients);

 private:
  static constexpr int64_t kPart = 1 << 13;  // values of a row at most

  Queue& queue_;
  int64_t rows_ = 0;
  int params_ = 0;     // in the table
  int next_ = 0;       // parameter whose sum of squares is asked for next
  int64_t begin_ = 0;  // of the first parameter in the flat arrays
  Buffer table_;
  Buffer sums_;  // of all rows, then of each; empty without clipping
  Buffer total_;
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_GPU_PARAMS_H_
