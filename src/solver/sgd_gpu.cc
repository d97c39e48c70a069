// SGD on GPUs.
#include "device/gpu_types.h"
#include "solver/gpu_params.h"
#include "solver/sgd.h"

namespace millrace::inline solver {
namespace {

class SgdRuleGpu final : public SgdRule {
 public:
  explicit SgdRuleGpu(const UpdateContext& context) : SgdRule(context), gpu_params_(context) {}

 protected:
  void StepAll(const SgdStep& step, float rate, float decay, bool l1, const float* gradients,
               float* weights) override {
    gpu_params_.Update(SgdUpdate{step, l1, gradients, history(0), weights}, rate, decay, l1);
  }

  double SumOfSquares(int64_t, const float* gradients) override {
    return gpu_params_.SumOfSquares(gradients);
  }

 private:
  GpuParams gpu_params_;
};

const bool registered = [] {
  GpuTypes::ForEach([](DeviceType device) {
    for (const char* name : {"SGD", "Nesterov"}) RegisterUpdateRule<SgdRuleGpu>(name, device);
  });
  return true;
}();

}  // namespace
}  // namespace millrace::inline solver
