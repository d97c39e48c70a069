// Delay compensation (Zheng et al.: "Asynchronous Stochastic Gradient Descent with Delay
// Compensation", ICML 2017) of a worker's unsent progress. The paper corrects a gradient g,
// computed at weights that have moved since, to first order with g g for the Hessian:
//   g + lambda g g (w_now - w_then)
// Progress u is -rate times the sum of gradients. When a position moves the base by `moved`, it
// becomes
//   Compensate(u, moved) = u min(2, max(0, 1 - strength u moved))       strength = lambda / rate
// so u never changes its sign nor more than doubles. Otherwise as the additive rule. A solver with
// Caffe's Nesterov momentum, which looks ahead by its own momentum (DANA-Slim), makes it DANA-DC
// (Hakimi et al.: "Taming Momentum in a Distributed Asynchronous Environment", 2019).
//
// No state. Fixed point: u = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_DELAY_COMPENSATED_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_DELAY_COMPENSATED_RULE_H_

#include "base/host_device.h"
#include "exchange/kernels/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct DelayCompensatedRule : AdditiveRule {
  float strength = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Compensate(T u, T moved) const {
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

#endif  // MILLRACE_EXCHANGE_KERNELS_DELAY_COMPENSATED_RULE_H_
