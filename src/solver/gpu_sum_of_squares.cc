#include "solver/gpu_sum_of_squares.h"

#include <algorithm>

#include "device/kernel.h"
#include "solver/sgd_kernels.h"

namespace millrace::inline solver {

GpuSumOfSquares::GpuSumOfSquares(const UpdateContext& context) : queue_(*context.queue) {
  if (context.param.clip_gradients() < 0) return;
  int64_t most = 0;
  for (const UpdateParam& each : context.params) most = std::max(most, each.count);
  Device& device = queue_.device();
  parts_ = Buffer(device.memory(), (SquaresOfParts::rows(most, kPart) + 1) * sizeof(double));
  total_ = Buffer(device.staging(), sizeof(double));
}

double GpuSumOfSquares::operator()(int64_t count, const float* values) {
  const int64_t rows = SquaresOfParts::rows(count, kPart);
  auto* const total = parts_.get<double>();
  Launch(queue_, rows, SquaresOfParts{count, kPart, values, total + 1});
  Launch(queue_, 1, SumOfParts{rows, total + 1, total});
  queue_.CopyToHost(total_.get(), total, sizeof(double));
  queue_.Synchronize();
  return *total_.get<double>();
}

}  // namespace millrace::inline solver
