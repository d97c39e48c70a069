// The master takes diffs as the steps of an outer optimizer, with a rate and momentum. With the
// rate 1 / N for N nodes and no momentum this is averaging (local SGD); with momentum it is block
// momentum (Chen, Huo: "Scalable training of deep learning machines by incremental block training
// with intra-block parallel optimization and blockwise model-update filtering", ICASSP 2016), with
// `nesterov` the outer optimizer of DiLoCo (Douillard et al., 2023).
//
// Diffs of N workers arrive one after the other, so momentum is counted once per round of `delay`
// diffs of a chunk (Liu et al.: "Asynchronous Local-SGD Training for Language Modeling", 2024,
// "delayed Nesterov" with c = 0). For the diffs d_1 to d_delay of a round, and the velocity v of
// the round before (0 at first):
//   v' = momentum v + rate (d_1 + ... + d_delay)
//   w' = w + rate d_j                    for each diff
//   w' = w + rate d_delay + momentum v'  for the last diff of a round, with nesterov
//   w' = w + rate d_1 + momentum v       for the first diff of a round, without
// Over a round, w changes as by one step of (Nesterov) momentum with the sum of its diffs.
//
// State: v' so far, and the diffs of this round so far. Both begin with 0 at each new master.
// Worker: Select(u) = u, Residual(u, d) = u - d. Fixed point: u = 0; v moves nothing without diffs.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_OUTER_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_OUTER_RULE_H_

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct OuterRule : AdditiveRule {
  static constexpr int kStateFloats = 2;
  static constexpr bool kZeroChangesNothing = false;
  float rate = 1, momentum = 0, delay = 1;
  bool nesterov = false;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t /*staleness*/) const {
    const T carried = state[0], count = state[1];
    const T step = rate * d;
    const T velocity = carried + step;
    const T ahead = momentum * velocity;
    const auto is_first = count == 0.0f;
    const auto is_last = count + 1.0f >= delay;
    const T of_last = is_last ? ahead : T{}, of_first = is_first ? carried : T{};
    state[0] = is_last ? ahead : velocity;
    state[1] = is_last ? T{} : count + 1.0f;
    return (w + step) + (nesterov ? of_last : of_first);
  }
};

// The parameter `delay` of `rule`. Throws Error unless it is a whole number.
inline float DelayOf(const char* rule, const RuleParameters& parameters) {
  const double delay = parameters.at("delay");
  if (delay != std::floor(delay)) {
    throw Error("merge rule ", rule, ": delay is ", delay, ": expected a whole number of diffs");
  }
  return static_cast<float>(delay);
}

inline OuterRule MakeOuterRule(const RuleParameters& parameters) {
  const float delay = DelayOf("outer", parameters);
  const double nesterov = parameters.at("nesterov");
  if (nesterov != 0 && nesterov != 1) {
    throw Error("merge rule outer: nesterov is ", nesterov, ": expected 0 or 1");
  }
  OuterRule rule;
  rule.rate = static_cast<float>(parameters.at("rate"));
  rule.momentum = static_cast<float>(parameters.at("momentum"));
  rule.delay = delay;
  rule.nesterov = nesterov == 1;
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_OUTER_RULE_H_
