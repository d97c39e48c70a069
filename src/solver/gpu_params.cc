#include "solver/gpu_params.h"

#include <algorithm>
#include <vector>

#include "nn/layers/write_number_kernels.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

GpuParams::GpuParams(const UpdateContext& context)
    : queue_(*context.queue),
      normalization_(1.0f / static_cast<float>(context.param.iter_size())),
      limit_(context.param.clip_gradients()) {
  std::vector<ParamRow> rows;
  for (const UpdateParam& each : context.params) {
    if (each.lr_mult == 0) continue;
    for (int64_t begin = 0; begin < each.count; begin += kPart) {
      rows.push_back({each.offset + begin, std::min(kPart, each.count - begin), each.lr_mult,
                      each.decay_mult});
    }
  }
  rows_ = static_cast<int64_t>(rows.size());
  Device& device = queue_.device();
  table_ = Buffer(device.memory(), rows.size() * sizeof(ParamRow));
  device.memory().CopyFromHost(table_.get(), rows.data(), table_.bytes());
  numbers_ = Buffer(device.memory(), sizeof(UpdateNumbers));
  if (limit_ < 0) return;
  squares_ = Buffer(device.memory(), rows.size() * sizeof(double));
  clipped_ = Buffer(device.memory(), sizeof(ClippedGradient));
  device.memory().Fill(clipped_.get(), 0, clipped_.bytes());
  reported_ = Buffer(device.staging(), sizeof(ClippedGradient));
  *reported_.get<ClippedGradient>() = {};
}

GpuParams::~GpuParams() {
  try {
    queue_.Synchronize();
  } catch (const Error&) {
    // The device has failed, as its users have noticed, and accesses no memory any more.
  }
}

void GpuParams::Store(UpdateNumbers numbers) {
  ReportClipping();
  numbers.scale = normalization_;
  Launch(queue_, 1, WriteNumber<UpdateNumbers>{numbers, numbers_.get<UpdateNumbers>()});
}

const float* GpuParams::Clip(const float* gradients) {
  auto* const clipped = clipped_.get<ClippedGradient>();
  auto* const squares = squares_.get<double>();
  Launch(queue_, rows_, SquaresOfRows{table_.get<ParamRow>(), gradients, squares});
  Launch(queue_, 1, ClipBySquares{rows_, limit_, normalization_, squares, clipped});
  return &clipped->scale;
}

void GpuParams::ReportClipping() {
  if (limit_ < 0 || !copied_.Done()) return;
  const auto* const clipped = reported_.get<ClippedGradient>();
  if (clipped->norm > limit_) LogClipping(clipped->norm, limit_);
  queue_.CopyToHost(reported_.get(), clipped_.get(), clipped_.bytes());
  copied_ = queue_.Record();
}

}  // namespace millrace::inline solver
