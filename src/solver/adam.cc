#include "solver/adam.h"

#include "solver/element_rule.h"

namespace millrace::inline solver {
namespace {

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

const RegisterElementRule<AdamRule> registered("Adam");

}  // namespace
}  // namespace millrace::inline solver
