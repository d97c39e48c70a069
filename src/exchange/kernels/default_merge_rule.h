// The merge rule of a segment that names none.
#ifndef MILLRACE_EXCHANGE_KERNELS_DEFAULT_MERGE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_DEFAULT_MERGE_RULE_H_

#include <string>

#include "exchange/kernels/merge_rule_registry.h"

namespace millrace::inline exchange {

// The largest segment for which plain addition, with damping, holds the accuracy of one solver
// (docs/learning.md). In larger ones damping makes it learn more slowly.
inline constexpr int kMostAdditiveMembers = 8;

struct DefaultMergeRule {
  MergeRuleConfig rule;  // with all its parameters
  bool damping = true;   // outer bounds the sum of a round itself
  std::string reason;    // in words: "outer with ..., the default for ..."
};

// For a segment of so many members at its start. `alone`: no other segment exchanges the same
// weights on one of the members; else the rule has no state, because each of two such rules would
// add momentum to what the other adds.
DefaultMergeRule DefaultMergeRuleFor(int members, bool alone = true);

// Whether a segment that names this rule, and not `damping`, is damped. delay_compensated is not:
// every position would correct the progress that is held back once more.
bool IsDampedByDefault(const std::string& rule);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_DEFAULT_MERGE_RULE_H_
