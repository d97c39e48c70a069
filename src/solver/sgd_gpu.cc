// SGD on GPUs.
#include "device/gpu_types.h"
#include "solver/gpu_params.h"
#include "solver/sgd.h"

namespace millrace::inline solver {
namespace {

class SgdRuleGpu final : public SgdRule, public RecordableRule {
 public:
  explicit SgdRuleGpu(const UpdateContext& context) : SgdRule(context), gpu_params_(context) {}

  void PrepareUpdate(float rate, bool together) override {
    gpu_params_.Store({.rate = rate, .ahead = AheadOf(together)});
  }
  void EnqueueUpdate(const float* gradients, float* weights, const LossGuard& guard) override {
    gpu_params_.UpdateByStored(KernelOf(gradients, weights), weight_decay(), l1(), guard);
  }

 protected:
  void StepAll(float rate, float ahead, const float* gradients, float* weights) override {
    gpu_params_.Update(KernelOf(gradients, weights), {.rate = rate, .ahead = ahead}, weight_decay(),
                       l1());
  }

 private:
  SgdUpdate KernelOf(const float* gradients, float* weights) const {
    return {{.momentum = momentum()}, l1(), gradients, history(0), weights};
  }

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
