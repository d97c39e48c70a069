// AdaGrad, RMSProp, AdaDelta and Adam on all devices.
#include "solver/adaptive_rules.h"

#include <cstdint>
#include <optional>
#include <string>

#include "device/gpu_types.h"
#include "device/kernel.h"
#include "solver/gpu_params.h"
#include "solver/update_rule.h"

namespace millrace::inline solver {
namespace {

// Base of the update rules that are one kernel (device/kernel.h) over the weights, one pass over
// memory on the host and on GPUs.

// Runs `kernel` on the host for elements [0, count) of shared weights. Its name is what the thread
// sanitizer's suppressions match (hogwild_update.h).
template <typename Kernel>
__attribute__((noinline)) void HogwildUpdateElements(int64_t count, const Kernel& kernel) {
  RunOnHost(count, kernel);
}

// A Kernel has the arrays, rate and gradient of AdaGradUpdate, with a second slot those
// of AdamUpdate, and coefficients of its own.
template <typename Kernel>
class ElementRule : public UpdateRule, public RecordableRule {
 public:
  // `counts` is that of UpdateRule.
  explicit ElementRule(const UpdateContext& context, bool counts = false)
      : UpdateRule(context, Kernel::kSlots, counts), l1_(param().regularization_type() == "L1") {
    if (queue().device().type() != DeviceType::kCpu) gpu_params_.emplace(context);
  }

  // The step does not depend on whether others train: it is that of Caffe.
  void Apply(float rate, float /*look_ahead*/, const float* gradients, float* weights) final {
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
  void PrepareUpdate(float rate, float /*look_ahead*/) final {
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

class AdaGradRule final : public ElementRule<AdaGradUpdate> {
 public:
  explicit AdaGradRule(const UpdateContext& context) : ElementRule(context) { RefuseMomentum(); }

 protected:
  AdaGradUpdate Coefficients() const override {
    AdaGradUpdate kernel;
    kernel.delta = param().delta();
    return kernel;
  }
};

const RegisterElementRule<AdaGradRule> adagrad("AdaGrad");

class RmsPropRule final : public ElementRule<RmsPropUpdate> {
 public:
  explicit RmsPropRule(const UpdateContext& context) : ElementRule(context) {
    RefuseMomentum();
    if (!(param().rms_decay() >= 0 && param().rms_decay() < 1)) {
      throw FieldError("rms_decay", param().rms_decay(),
                       " given, expected a number from 0 to less than 1");
    }
  }

 protected:
  RmsPropUpdate Coefficients() const override {
    RmsPropUpdate kernel;
    kernel.rms_decay = param().rms_decay();
    kernel.delta = param().delta();
    return kernel;
  }
};

const RegisterElementRule<RmsPropRule> rmsprop("RMSProp");

class AdaDeltaRule final : public ElementRule<AdaDeltaUpdate> {
 public:
  explicit AdaDeltaRule(const UpdateContext& context) : ElementRule(context) {}

 protected:
  AdaDeltaUpdate Coefficients() const override {
    AdaDeltaUpdate kernel;
    kernel.momentum = param().momentum();
    kernel.delta = param().delta();
    return kernel;
  }
};

const RegisterElementRule<AdaDeltaRule> adadelta("AdaDelta");

class AdamRule final : public ElementRule<AdamUpdate> {
 public:
  explicit AdamRule(const UpdateContext& context) : ElementRule(context, true) {}

 protected:
  AdamUpdate Coefficients() const override {
    AdamUpdate kernel;
    kernel.beta1 = param().momentum();
    kernel.beta2 = param().momentum2();
    kernel.delta = param().delta();
    return kernel;
  }
  float Correction() override {
    const double t = static_cast<double>(CountUpdate());
    const double beta1 = param().momentum(), beta2 = param().momentum2();
    return static_cast<float>(std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
  }
};

const RegisterElementRule<AdamRule> adam("Adam");

}  // namespace
}  // namespace millrace::inline solver
