#include "solver/rmsprop.h"

#include "solver/element_rule.h"

namespace millrace::inline solver {
namespace {

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

const RegisterElementRule<RmsPropRule> registered("RMSProp");

}  // namespace
}  // namespace millrace::inline solver
