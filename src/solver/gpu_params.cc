#include "solver/gpu_params.h"

#include <algorithm>
#include <vector>

namespace millrace::inline solver {

GpuParams::GpuParams(const UpdateContext& context) : queue_(*context.queue) {
  std::vector<ParamRow> rows;
  for (const UpdateParam& each : context.params) {
    if (each.lr_mult == 0) continue;
    if (params_++ == 0) begin_ = each.offset;
    for (int64_t begin = 0; begin < each.count; begin += kPart) {
      rows.push_back({each.offset + begin, std::min(kPart, each.count - begin), each.lr_mult,
                      each.decay_mult});
    }
  }
  rows_ = static_cast<int64_t>(rows.size());
  Device& device = queue_.device();
  table_ = Buffer(device.memory(), rows.size() * sizeof(ParamRow));
  device.memory().CopyFromHost(table_.get(), rows.data(), table_.bytes());
  if (context.param.clip_gradients() < 0) return;
  sums_ = Buffer(device.memory(), (rows.size() + 1) * sizeof(double));
  total_ = Buffer(device.staging(), sizeof(double));
}

GpuParams::~GpuParams() {
  try {
    queue_.Synchronize();
  } catch (const Error&) {
    // The device has failed, as its users have noticed, and accesses no memory any more.
  }
}

double GpuParams::SumOfSquares(const float* gradients) {
  const bool first = next_ == 0;
  next_ = (next_ + 1) % params_;
  if (!first) return 0;
  auto* const total = sums_.get<double>();
  Launch(queue_, rows_, SquaresOfRows{table_.get<ParamRow>(), gradients - begin_, total + 1});
  Launch(queue_, 1, SumOfParts{rows_, total + 1, total});
  queue_.CopyToHost(total_.get(), total, sizeof(double));
  queue_.Synchronize();
  return *total_.get<double>();
}

}  // namespace millrace::inline solver
