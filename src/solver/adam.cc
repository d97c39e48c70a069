#include "solver/adam.h"

#include "solver/element_rule.h"

namespace millrace::inline solver {
namespace {

class AdamRule final : public ElementRule<AdamUpdate> {
 public:
  explicit AdamRule(const UpdateContext& context) : ElementRule(context, true) {}

 protected:
  AdamUpdate Coefficients() override {
    AdamUpdate kernel;
    const double t = static_cast<double>(CountUpdate());
    kernel.beta1 = param().momentum();
    kernel.beta2 = param().momentum2();
    kernel.correction = static_cast<float>(std::sqrt(1 - std::pow(double{kernel.beta2}, t)) /
                                           (1 - std::pow(double{kernel.beta1}, t)));
    kernel.delta = param().delta();
    return kernel;
  }
};

const RegisterElementRule<AdamRule> registered("Adam");

}  // namespace
}  // namespace millrace::inline solver
