// The master takes stale diffs in part (Zhang, Gupta, Lian, Liu: "Staleness-aware Async-SGD for
// Distributed Deep Learning", IJCAI 2016, which divides by the staleness):
//   Apply(w, d) = w + d / max(1, 1 + staleness - grace)^power
// staleness: positions of the chunk that the master has sent since the one from which the diff was
// computed; more than 63 count as 63. grace = 1, power = 1 is the paper's
// 1 / max(1, staleness). The part that is not taken is dropped.
//
// No state. Worker: Select(u) = u, Residual(u, d) = u - d. Fixed point: u = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_RULE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/rules/staleness_factors.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct StalenessRule : AdditiveRule {
  StalenessFactors factors;

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* /*state*/, uint32_t staleness) const {
    return w + factors.Of(staleness) * d;
  }
};

inline StalenessRule MakeStalenessRule(const RuleParameters& parameters) {
  const double power = parameters.at("power"), grace = parameters.at("grace");
  StalenessRule rule;
  rule.factors = StalenessFactors(
      [&](uint32_t staleness) { return std::pow(std::max(1.0, 1 + staleness - grace), -power); });
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_STALENESS_RULE_H_
