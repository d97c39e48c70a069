// SGD on GPUs.
#include <algorithm>

#include "device/gpu_types.h"
#include "device/kernel.h"
#include "solver/sgd.h"
#include "solver/sgd_kernels.h"

namespace millrace {
namespace {

class SgdRuleGpu final : public SgdRule {
 public:
  explicit SgdRuleGpu(const UpdateContext& context) : SgdRule(context) {
    if (context.param.clip_gradients() < 0) return;
    int64_t most = 0;
    for (const UpdateParam& each : context.params) most = std::max(most, each.count);
    Device& device = context.queue->device();
    parts_ = Buffer(device.memory(), (SquaresOfParts::rows(most, kPart) + 1) * sizeof(double));
    total_ = Buffer(device.staging(), sizeof(double));
  }

 protected:
  void Step(const SgdStep& step, bool l1, const UpdateParam& of, const float* gradients,
            float* weights) override {
    Launch(queue(), of.count,
           SgdUpdate{step, l1, gradients + of.offset, history(0) + of.offset, weights + of.offset});
  }

  double SumOfSquares(int64_t count, const float* gradients) override {
    const int64_t rows = SquaresOfParts::rows(count, kPart);
    auto* const total = parts_.get<double>();
    Launch(queue(), rows, SquaresOfParts{count, kPart, gradients, total + 1});
    Launch(queue(), 1, SumOfParts{rows, total + 1, total});
    queue().CopyToHost(total_.get(), total, sizeof(double));
    queue().Synchronize();
    return *total_.get<double>();
  }

 private:
  static constexpr int64_t kPart = 1 << 14;  // values of a row of SquaresOfParts

  Buffer parts_;  // the total, then the parts; empty without clipping
  Buffer total_;
};

const bool registered = [] {
  GpuTypes::ForEach([](DeviceType device) {
    for (const char* name : {"SGD", "Nesterov"}) RegisterUpdateRule<SgdRuleGpu>(name, device);
  });
  return true;
}();

}  // namespace
}  // namespace millrace
