// SGD on the host: Hogwild updates under range locks.
#include "solver/hogwild_update.h"
#include "solver/sgd.h"

namespace millrace::inline solver {
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

}  // namespace
}  // namespace millrace::inline solver
