#include "solver/sgd.h"

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

void SgdRule::Apply(float rate, bool together, const float* gradients, float* weights) {
  StepAll(rate, AheadOf(together), gradients, weights);
}

float SgdRule::AheadOf(bool together) const {
  const bool looks = ahead_ == LookAhead::kAlways || (together && ahead_ == LookAhead::kTogether);
  return looks ? momentum_ : 0;
}

}  // namespace millrace::inline solver
