// Error feedback that decays, for codecs that send few elements: what a diff leaves unsent stays as
// decay (u - d). Old progress, computed at weights that have moved on, fades (SparseLoCo: Sarfi et
// al.: "Communication Efficient LLM Pre-training with SparseLoCo", 2025). Refused with codecs that
// send all elements.
//   Select(u) = u    Residual(u, d) = decay (u - d)    Apply(w, d) = w + d
// No state. Fixed point: u = 0 with topk and random, |u| below the threshold with sparse.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_DECAYED_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_DECAYED_RULE_H_

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct DecayedRule : AdditiveRule {
  static constexpr bool kChangesUnsent = true;
  static constexpr bool kNeedsSparse = true;
  float decay = 1;

  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    return decay * (u - d);
  }
};

inline DecayedRule MakeDecayedRule(const RuleParameters& parameters) {
  DecayedRule rule;
  rule.decay = static_cast<float>(parameters.at("decay"));
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_DECAYED_RULE_H_
