#include "solver/adadelta.h"

#include "solver/element_rule.h"

namespace millrace::inline solver {
namespace {

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

const RegisterElementRule<AdaDeltaRule> registered("AdaDelta");

}  // namespace
}  // namespace millrace::inline solver
