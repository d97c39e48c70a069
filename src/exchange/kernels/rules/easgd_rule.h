// Elastic averaging (Zhang, Choromanska, LeCun: "Deep learning with Elastic Averaging SGD", NIPS
// 2015). A worker explores on its own; it and its master move towards each other, each by the share
// `pull` of their distance u, until that is at most `rest`:
//   Select(u) = pull u where |u| > rest, else 0    Residual(u, d) = u - 2 d    Apply(w, d) = w + d
// No state. Fixed point: |u| <= rest. A solver file with Nesterov momentum makes it the paper's
// EAMSGD.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_EASGD_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_EASGD_RULE_H_

#include "base/error.h"
#include "base/host_device.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct EasgdRule : AdditiveRule {
  float pull = 0, rest = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Select(T u) const {
    return Magnitude(u) > ToBits(rest) ? pull * u : T{};
  }
  template <typename T>
  MILLRACE_HOST_DEVICE T Residual(T u, T d) const {
    return u - 2.0f * d;
  }
};

// The least step of a weight. Half of the last bit of a weight below 128 is at most 3.8e-6; smaller
// steps change nothing, and exchanges would not end.
inline constexpr double kMinElasticStep = 5e-6;

inline EasgdRule MakeEasgdRule(const RuleParameters& parameters) {
  const double step = parameters.at("pull") * parameters.at("rest");
  if (step < kMinElasticStep) {
    throw Error("merge rule easgd: pull times rest is ", step, ": expected at least ",
                kMinElasticStep, ", which moves a weight");
  }
  EasgdRule rule;
  rule.pull = static_cast<float>(parameters.at("pull"));
  rule.rest = static_cast<float>(parameters.at("rest"));
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_EASGD_RULE_H_
