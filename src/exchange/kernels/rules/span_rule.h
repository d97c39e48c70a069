// Rules over spans (millrace/merge_rule.h) in the host executor: SpanRule takes the place of a
// rule's struct (merge_rule.h), and overloads of the executor's loops for it (span_loops-inl.h)
// call the rule once per block. A virtual call then costs nothing beside the block. The loops copy
// a block into memory that stays in the first-level cache, because solvers may read the weights at
// any time. Host code only.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_SPAN_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_SPAN_RULE_H_

#include <cstdint>
#include <memory>

#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

// Largest number of elements of one call of a rule. 8 KiB of copies, and 2 KiB for each float of
// state.
inline constexpr int64_t kBlockFloats = 512;

// The copies of one block.
struct SpanBlock {
  alignas(64) float u[kBlockFloats];  // also w, when merging
  alignas(64) float d[kBlockFloats];  // also Select(u), before it is rounded
  alignas(64) float rest[kBlockFloats];
  alignas(64) int32_t place[kBlockFloats];  // of present elements in the chunk
  alignas(64) float state[kMaxStateFloats * kBlockFloats];
};

// Copies refer to the same rule and block: an executor's own.
template <bool kZeroIsNothing>
struct SpanRule {
  static constexpr bool kZeroChangesNothing = kZeroIsNothing;
  std::shared_ptr<const MergeRule> rule;
  int state_floats = 0;
  std::shared_ptr<SpanBlock> block = std::make_shared<SpanBlock>();
  float share = 1;  // of Select(u) that is sent (ChunkOp::share)
  bool drops_rest = false;
};

// In place of DampedRule.
template <bool kZero>
SpanRule<kZero> Damped(const SpanRule<kZero>& rule, float share) {
  return {rule.rule, rule.state_floats, rule.block, share};
}
// In place of DroppingRule.
template <bool kZero>
SpanRule<kZero> Dropping(const SpanRule<kZero>& rule, float share) {
  return {rule.rule, rule.state_floats, rule.block, share, true};
}

// Floats of state per element of a rule of either kind.
template <typename Rule>
int StateFloatsOf(const Rule& /*rule*/) {
  return Rule::kStateFloats;
}
template <bool kZero>
int StateFloatsOf(const SpanRule<kZero>& rule) {
  return rule.state_floats;
}

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_SPAN_RULE_H_
