// Gap-aware penalty (Barkai, Hakimi, Schuster: "Gap-Aware Mitigation of Gradient Staleness", ICLR
// 2020). A weight's gap is how far it has moved since the position from which progress was
// computed, in mean steps of that weight; the progress is divided by 1 + gap. When a diff is taken
// with a position that moves the base by `moved`, progress u becomes
//   Compensate(u, moved) = u / (1 + |moved| / c) = u c / (c + |moved|)
// where c is the mean of |u| over the diffs taken: c = |u| for the first, then
//   c = memory c + (1 - memory) |u|.
// So c is a mean step of this worker, where the paper has one of its master's updates; each of
// these is that of one worker. `moved` is what the others changed up to this position, not what
// they change while the diff travels. The part that is not taken is dropped.
//
// State: c, of the worker. Otherwise as the additive rule. Fixed point: u = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_GAP_AWARE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_GAP_AWARE_RULE_H_

#include "base/host_device.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/rules/additive_rule.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

struct GapAwareRule : AdditiveRule {
  static constexpr int kStateFloats = 1;
  float memory = 0;

  template <typename T>
  MILLRACE_HOST_DEVICE T Compensate(T u, T moved, T* state) const {
    const T step = FromBits<T>(Magnitude(u)), gap = FromBits<T>(Magnitude(moved));
    const T before = state[0];
    const T mean = before > 0.0f ? memory * before + (1.0f - memory) * step : step;
    const auto is_finite = Magnitude(u) < kInfinityBits;
    state[0] = is_finite ? mean : before;
    return (gap > 0.0f) & is_finite ? u * (mean / (mean + gap)) : u;
  }
};

inline GapAwareRule MakeGapAwareRule(const RuleParameters& parameters) {
  GapAwareRule rule;
  rule.memory = static_cast<float>(parameters.at("memory"));
  return rule;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_GAP_AWARE_RULE_H_
