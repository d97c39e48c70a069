// Direction-aware correction of diffs (Al Asif et al.: "HeLoCo: Efficient asynchronous
// low-communication training under data and device heterogeneity", 2026), then its outer Nesterov
// momentum. The momentum m of a chunk is the direction of training. With the diff d of the chunk,
// c = cos(d, m) and confidence = |d| / (|d| + kappa |m|), the diff that counts is
//   d                                            if c >= keep
//   |d| x / |x|, x = (1 - t) d / |d| + t m / |m|, t = min(1, turn (1 - c) confidence)
//                                                if 0 <= c < keep: turned towards m
//   d - s c |d| m / |m|, s = min(cap, shrink (-c) confidence)
//                                                if c < 0: less of what is against m
// and with g for it
//   m' = momentum m + (1 - momentum) g    w' = w + rate (g + momentum m')
// The paper corrects each tensor; a master has chunks, which are the blocks here. As in the paper,
// momentum is counted with each diff, not once per round.
//
// State: m. Worker: as the additive rule. Fixed point: u = 0; m moves nothing without diffs.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_HELOCO_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_HELOCO_RULE_H_

#include <cstdint>

#include "base/host_device.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "exchange/kernels/square_root.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct HelocoRule : AdditiveRule {
  static constexpr int kStateFloats = 1;
  static constexpr bool kZeroChangesNothing = false;
  float rate = 1, momentum = 0, keep = 0, turn = 0, shrink = 0, cap = 0, kappa = 0;
  // The diff that counts is own d + along m.
  float own = 1, along = 0;

  MILLRACE_HOST_DEVICE HelocoRule Aligned(float dm, float dd, float mm) const {
    HelocoRule rule = *this;
    const float d = SquareRoot(dd), m = SquareRoot(mm);
    const float cosine = dm / (d * m);
    // A norm whose square overflows or vanishes has no direction.
    if (!(cosine < keep && d * m > 1e-30f && d * m < 1e30f)) return rule;
    const float confidence = d / (d + kappa * m);
    if (cosine < 0.0f) {
      const float wanted = shrink * -cosine * confidence;
      rule.along = -(wanted < cap ? wanted : cap) * cosine * d / m;
    } else {
      const float wanted = turn * (1.0f - cosine) * confidence;
      const float t = wanted < 1.0f ? wanted : 1.0f, rest = 1.0f - t;
      const float length = SquareRoot(rest * rest + t * t + 2.0f * (rest * t) * cosine);
      rule.own = rest / length;
      rule.along = t * d / (length * m);
    }
    return rule;
  }

  template <typename T>
  MILLRACE_HOST_DEVICE T Apply(T w, T d, T* state, uint32_t /*staleness*/) const {
    const T g = own * d + along * state[0];
    state[0] = momentum * state[0] + (1.0f - momentum) * g;
    return w + rate * (g + momentum * state[0]);
  }
};

inline HelocoRule MakeHelocoRule(const RuleParameters& parameters) {
  const auto value = [&](const char* name) { return static_cast<float>(parameters.at(name)); };
  HelocoRule rule;
  rule.rate = value("rate");
  rule.momentum = value("momentum");
  rule.keep = value("keep");
  rule.turn = value("turn");
  rule.shrink = value("shrink");
  rule.cap = value("cap");
  rule.kappa = value("kappa");
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_HELOCO_RULE_H_
