// Delay compensation (Zheng et al.: "Asynchronous Stochastic Gradient Descent with Delay
// Compensation", ICML 2017) of a worker's unsent progress. The paper corrects a gradient g,
// computed at weights that have moved since, to first order with g g for the Hessian:
//   g + lambda g g (w_now - w_then)
// When a diff is taken with a position that moves the base by `moved`, progress u becomes
//   Compensate(u, moved) = u min(2, max(0, 1 - strength u moved))
// so u never changes its sign nor more than doubles. Otherwise as the additive rule.
//
// Were u = -rate g, of one gradient without momentum, this would be the paper's correction with
// strength = lambda / rate. But u is the progress of k iterations since the last diff with momentum
// m, about k / (1 - m) times as large, and so is the correction. That of gradients is in
// strategy/delay_compensation.h.
//
// No state. Fixed point: u = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_DELAY_COMPENSATED_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_DELAY_COMPENSATED_RULE_H_

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct DelayCompensatedRule : AdditiveRule {
  float strength = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Compensate(T u, T moved, T* /*state*/) const {
    T factor = 1.0f - (strength * u) * moved;
    factor = factor > 0.0f ? factor : T{};
    factor = factor < 2.0f ? factor : T{} + 2.0f;
    return u * factor;
  }
};

inline DelayCompensatedRule MakeDelayCompensatedRule(const RuleParameters& parameters) {
  DelayCompensatedRule rule;
  rule.strength = static_cast<float>(parameters.at("strength"));
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_DELAY_COMPENSATED_RULE_H_
