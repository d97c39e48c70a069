// SGD on GPUs.
#include "device/gpu_types.h"
#include "device/kernel.h"
#include "solver/gpu_sum_of_squares.h"
#include "solver/sgd.h"
#include "solver/sgd_kernels.h"

namespace millrace::inline solver {
namespace {

class SgdRuleGpu final : public SgdRule {
 public:
  explicit SgdRuleGpu(const UpdateContext& context) : SgdRule(context), squares_(context) {}

 protected:
  void Step(const SgdStep& step, bool l1, const UpdateParam& of, const float* gradients,
            float* weights) override {
    Launch(queue(), of.count,
           SgdUpdate{step, l1, gradients + of.offset, history(0) + of.offset, weights + of.offset});
  }

  double SumOfSquares(int64_t count, const float* gradients) override {
    return squares_(count, gradients);
  }

 private:
  GpuSumOfSquares squares_;
};

const bool registered = [] {
  GpuTypes::ForEach([](DeviceType device) {
    for (const char* name : {"SGD", "Nesterov"}) RegisterUpdateRule<SgdRuleGpu>(name, device);
  });
  return true;
}();

}  // namespace
}  // namespace millrace::inline solver
