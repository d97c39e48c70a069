// Momentum look-ahead (Ajanthan et al.: "Momentum Look-Ahead for Asynchronous Distributed
// Low-Communication Training", MCDC workshop at ICLR 2025): workers begin where the outer momentum
// will have carried the weights when their diffs arrive. The master's weights, and so its
// positions, are the extrapolated ones, w = x + ahead v for the weights x of momentum without
// look-ahead and its velocity v. Momentum is counted once per round of `delay` diffs, as by the
// rule outer: for the diffs d_1 to d_delay of a round and the velocity v of the round before (0 at
// first),
//   v' = momentum v + rate (d_1 + ... + d_delay)
//   w' - w = (x' + ahead v') - (x + ahead v) = v' + ahead (v' - v)
// of which each diff adds rate d_j and the last one the rest, momentum v + ahead (v' - v). Were the
// look-ahead added with each diff, training would diverge at lower rates, as the diffs of a round
// answer to it late. ahead = momentum is outer with nesterov. momentum + ... + momentum^k looks k
// rounds ahead.
//
// State: v, rate times the sum of this round's diffs so far, and their number. All begin with 0 at
// each new master. Worker: as the additive rule. Fixed point: u = 0; v moves nothing without diffs.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_MLA_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_MLA_RULE_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/outer_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct MlaRule : AdditiveRule {
  static constexpr int kStateFloats = 3;
  static constexpr bool kZeroChangesNothing = false;
  float rate = 1, momentum = 0, ahead = 0, delay = 1;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t /*staleness*/) const {
    const T velocity = state[0], count = state[2] + 1.0f;
    const T step = rate * d;
    const T sum = state[1] + step;
    const T carried = momentum * velocity;
    const T next = carried + sum;
    const T of_last = carried + ahead * (next - velocity);
    const auto is_last = count >= delay;
    state[0] = is_last ? next : velocity;
    state[1] = is_last ? T{} : sum;
    state[2] = is_last ? T{} : count;
    return (w + step) + (is_last ? of_last : T{});
  }
};

inline MlaRule MakeMlaRule(const RuleParameters& parameters) {
  MlaRule rule;
  rule.rate = static_cast<float>(parameters.at("rate"));
  rule.momentum = static_cast<float>(parameters.at("momentum"));
  rule.ahead = static_cast<float>(parameters.at("ahead"));
  rule.delay = DelayOf("mla", parameters);
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_MLA_RULE_H_
