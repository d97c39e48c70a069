#include "solver/sgd.h"

#include "device/gpu_types.h"
#include "solver/gpu_params.h"
#include "solver/hogwild_update.h"

namespace millrace::inline solver {

SgdRule::LookAhead SgdRule::LookAheadOf(const caffe::SolverParameter& param) {
  if (param.type() == "Nesterov") return LookAhead::kAlways;
  return param.momentum_lookahead() ? LookAhead::kTogether : LookAhead::kNever;
}

SgdRule::SgdRule(const UpdateContext& context)
    : UpdateRule(context, 1),
      ahead_(LookAheadOf(param())),
      momentum_(param().momentum()),
      weight_decay_(param().weight_decay()),
      l1_(param().regularization_type() == "L1") {}

void SgdRule::Apply(float rate, float look_ahead, const float* gradients, float* weights) {
  StepAll(rate, AheadOf(look_ahead), gradients, weights);
}

float SgdRule::AheadOf(float look_ahead) const {
  if (ahead_ == LookAhead::kNever) return 0;
  return momentum_ * (ahead_ == LookAhead::kAlways ? 1 : look_ahead);
}

// SGD on the host: Hogwild updates under range locks.

namespace {

class SgdRuleCpu final : public SgdRule {
 public:
  explicit SgdRuleCpu(const UpdateContext& context) : SgdRule(context) {}

 protected:
  void StepAll(float rate, float ahead, const float* gradients, float* weights) override {
    const auto update = l1() ? HogwildUpdateSgdL1 : HogwildUpdateSgdL2;
    SgdStep own;
    own.momentum = momentum();
    own.ahead = ahead;
    own.scale = GradientScale(gradients);
    for (const UpdateParam& each : params()) {
      if (each.lr_mult == 0) continue;
      own.rate = rate * each.lr_mult;
      own.decay = weight_decay() * each.decay_mult;
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        update(own, count, gradients + begin, history(0) + begin, weights + begin, BestSimd());
      });
    }
  }
};

const RegisterUpdateRule<SgdRuleCpu> sgd("SGD", DeviceType::kCpu);
const RegisterUpdateRule<SgdRuleCpu> nesterov("Nesterov", DeviceType::kCpu);

// SGD on GPUs.
class SgdRuleGpu final : public SgdRule, public RecordableRule {
 public:
  explicit SgdRuleGpu(const UpdateContext& context) : SgdRule(context), gpu_params_(context) {}

  void PrepareUpdate(float rate, float look_ahead) override {
    gpu_params_.Store({.rate = rate, .ahead = AheadOf(look_ahead)});
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
