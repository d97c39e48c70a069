// Base of the update rules that are one kernel (device/kernel.h) over the weights, one pass over
// memory on the host and on GPUs.
#ifndef MILLRACE_SOLVER_ELEMENT_RULE_H_
#define MILLRACE_SOLVER_ELEMENT_RULE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "device/gpu_types.h"
#include "device/kernel.h"
#include "solver/gpu_params.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {

// Runs `kernel` on the host for elements [0, count) of shared weights. Its name is what the thread
// sanitizer's suppressions match (hogwild_update.h).
template <typename Kernel>
__attribute__((noinline)) void HogwildUpdateElements(int64_t count, const Kernel& kernel) {
  RunOnHost(count, kernel);
}

// A Kernel has the arrays, rate and gradient of AdaGradUpdate (adagrad.h), with a second slot those
// of AdamUpdate (adam.h), and coefficients of its own.
template <typename Kernel>
class ElementRule : public UpdateRule, public RecordableRule {
 public:
  // `counts` is that of UpdateRule.
  explicit ElementRule(const UpdateContext& context, bool counts = false)
      : UpdateRule(context, Kernel::kSlots, counts), l1_(param().regularization_type() == "L1") {
    if (queue().device().type() != DeviceType::kCpu) gpu_params_.emplace(context);
  }

  // The step does not depend on whether others train: it is that of Caffe.
  void Apply(float rate, bool /*together*/, const float* gradients, float* weights) final {
    Kernel kernel = Coefficients();
    UpdateNumbers numbers{.rate = rate, .correction = Correction()};
    const float decay = param().weight_decay();
    if (gpu_params_) {
      return gpu_params_->Update(From(kernel, 0, gradients, weights), numbers, decay, l1_);
    }
    numbers.scale = GradientScale(gradients);
    for (const UpdateParam& each : params()) {
      if (each.lr_mult == 0) continue;
      numbers.rate = rate * each.lr_mult;
      SetCoefficients(numbers, decay * each.decay_mult, l1_, &kernel);
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        HogwildUpdateElements(count, From(kernel, begin, gradients, weights));
      });
    }
  }

  // On devices.
  void PrepareUpdate(float rate, bool /*together*/) final {
    gpu_params_->Store({.rate = rate, .correction = Correction()});
  }
  void EnqueueUpdate(const float* gradients, float* weights, const LossGuard& guard) final {
    gpu_params_->UpdateByStored(From(Coefficients(), 0, gradients, weights), param().weight_decay(),
                                l1_, guard);
  }

 protected:
  // The coefficients that all updates have in common.
  virtual Kernel Coefficients() const = 0;
  // UpdateNumbers::correction of the next update; called once for each.
  virtual float Correction() { return 1; }

  // Throws FieldError if the solver file asks for momentum.
  void RefuseMomentum() const {
    if (param().momentum() == 0) return;
    throw FieldError("momentum", param().momentum(), " given, ", param().type(),
                     " has none, expected 0");
  }

 private:
  // The kernel on the arrays from element `begin` on.
  Kernel From(Kernel kernel, int64_t begin, const float* gradients, float* weights) const {
    kernel.gradients = gradients + begin;
    kernel.history = history(0) + begin;
    if constexpr (Kernel::kSlots == 2) kernel.history2 = history(1) + begin;
    kernel.weights = weights + begin;
    return kernel;
  }

  const bool l1_;
  std::optional<GpuParams> gpu_params_;  // none on the host
};

// Registers a class derived from ElementRule on the host and on all types of GPUs. Define one at
// namespace scope.
template <typename Rule>
struct RegisterElementRule {
  explicit RegisterElementRule(const std::string& name) {
    RegisterUpdateRule<Rule>(name, DeviceType::kCpu);
    GpuTypes::ForEach([name](DeviceType device) { RegisterUpdateRule<Rule>(name, device); });
  }
};

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_ELEMENT_RULE_H_
