#include "solver/adagrad.h"

#include "solver/element_rule.h"

namespace millrace::inline solver {
namespace {

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

const RegisterElementRule<AdaGradRule> registered("AdaGrad");

}  // namespace
}  // namespace millrace::inline solver
