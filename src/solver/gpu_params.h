// The parameters that an update rule changes on a GPU, as a table of rows (param_rows.h) there, and
// the numbers of an update.
#ifndef MILLRACE_SOLVER_GPU_PARAMS_H_
#define MILLRACE_SOLVER_GPU_PARAMS_H_

#include <cstdint>

#include "device/kernel.h"
#include "millrace/update_rule.h"
#include "solver/param_rows.h"

namespace millrace::inline solver {

class GpuParams {
 public:
  // Allocates the table and the numbers of updates, and memory for sums of squares if the solver
  // clips gradients. Throws Error if there is not enough.
  explicit GpuParams(const UpdateContext& context);
  // Waits for the work that uses the table.
  ~GpuParams();
  GpuParams(const GpuParams&) = delete;
  GpuParams& operator=(const GpuParams&) = delete;

  // Enqueues `kernel`, whose pointers are to the flat arrays, for all parameters but those with an
  // lr_mult of 0. `decay` and the numbers' rate are those of the solver; the numbers' scale is
  // found here.
  template <typename Kernel>
  void Update(const Kernel& kernel, UpdateNumbers numbers, float decay, bool l1) {
    ReportClipping();
    numbers.scale = normalization_;
    Enqueue<Kernel>({.kernel = kernel, .numbers = numbers, .decay = decay, .l1 = l1});
  }

  // The same in two parts, as of RecordableRule.
  void Store(UpdateNumbers numbers);
  template <typename Kernel>
  void UpdateByStored(const Kernel& kernel, float decay, bool l1, const LossGuard& guard) {
    const auto* const stored = numbers_.get<UpdateNumbers>();
    Enqueue<Kernel>({.kernel = kernel, .stored = stored, .guard = guard, .decay = decay, .l1 = l1});
  }

 private:
  static constexpr int64_t kPart = 1 << 13;  // values of a row at most

  template <typename Kernel>
  void Enqueue(UpdateOfRows<Kernel> update) {
    update.rows = table_.get<ParamRow>();
    if (limit_ >= 0) update.scale = Clip(update.kernel.gradients);
    Launch(queue_, rows_, update);
  }
  // Enqueues the kernels that find the factor of all gradients, and returns where it is.
  const float* Clip(const float* gradients);
  // Logs that a gradient was clipped, in the update before the last one: the host waits for none.
  void ReportClipping();

  Queue& queue_;
  const float normalization_;  // 1 / iter_size
  const float limit_;          // clip_gradients; below 0: none
  int64_t rows_ = 0;
  Buffer table_;
  Buffer numbers_;
  Buffer squares_;  // of each row; empty without clipping, as the next two
  Buffer clipped_, reported_;
  Event copied_;  // clipped_ to reported_
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_GPU_PARAMS_H_
