// Cosine-gated Adam-decay (Shah, Sun: "Cosine-Gated Adam-Decay: Drop-In Staleness-Aware Outer
// Optimization for Decoupled DiLoCo", 2026): Adam as the outer optimizer, of diffs that count less
// with their age. For the staleness t of a diff d,
//   factor(t) = e^(-decay t) (1 + cos(pi t / cutoff)) / 2 below the cutoff, 0 from it on
//   g  = factor(t) d
//   m' = beta1 m + (1 - beta1) g        v' = beta2 v + (1 - beta2) g g
//   w' = w + rate m^ / (sqrt(v^) + epsilon)
// where m^ and v^ are m' and v' divided by 1 - beta^k for the k-th diff (Adam's bias correction).
// The paper counts the age in rounds of all workers; here it is in positions of the chunk, of which
// a master of N members sends about N in a round. More than 63 count as 63.
//
// A diff with d = 0 is a step of Adam, too. State: m, v, and 1 - beta^k of both. Worker: as the
// additive rule. Fixed point: u = 0; m moves nothing without diffs.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_CGAD_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_CGAD_RULE_H_

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/staleness_factors.h"
#include "exchange/kernels/square_root.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct CgadRule : AdditiveRule {
  static constexpr int kStateFloats = 4;
  static constexpr bool kZeroChangesNothing = false;
  StalenessFactors factors;
  float rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t staleness) const {
    const T g = factors.Of(staleness) * d;
    state[0] = beta1 * state[0] + (1.0f - beta1) * g;
    state[1] = beta2 * state[1] + (1.0f - beta2) * (g * g);
    state[2] = beta1 * state[2] + (1.0f - beta1);
    state[3] = beta2 * state[3] + (1.0f - beta2);
    const T mean = state[0] / state[2], deviation = SquareRoot(state[1] / state[3]);
    return w + rate * (mean / (deviation + epsilon));
  }
};

inline CgadRule MakeCgadRule(const RuleParameters& parameters) {
  const double decay = parameters.at("decay"), cutoff = parameters.at("cutoff");
  CgadRule rule;
  rule.factors = StalenessFactors([&](uint32_t staleness) {
    if (staleness >= cutoff) return 0.0;
    return std::exp(-decay * staleness) * (1 + std::cos(std::numbers::pi * staleness / cutoff)) / 2;
  });
  rule.rate = static_cast<float>(parameters.at("rate"));
  rule.beta1 = static_cast<float>(parameters.at("beta1"));
  rule.beta2 = static_cast<float>(parameters.at("beta2"));
  rule.epsilon = static_cast<float>(parameters.at("epsilon"));
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_CGAD_RULE_H_
