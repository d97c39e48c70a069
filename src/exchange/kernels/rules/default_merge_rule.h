// The merge rule of a segment that names none, and its codecs.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_DEFAULT_MERGE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_DEFAULT_MERGE_RULE_H_

#include <optional>
#include <string>

#include "exchange/kernels/codec.h"
#include "exchange/kernels/rules/merge_rule_registry.h"

namespace millrace::inline exchange {

// The largest segment for which plain addition, with damping, holds the accuracy of one solver
// (docs/learning.md). In larger ones damping makes it learn more slowly.
inline constexpr int kMaxAdditiveMembers = 8;

// The smallest and the largest segment whose members average their progress, at as many times the
// learning rate (docs/benchmarks/learning.md).
inline constexpr int kMinAveragingMembers = 3, kMaxAveragingMembers = 16;

// The largest number of iterations of a member between two exchanges at which four members or more
// multiply their learning rate in full (RateScale). They learn fastest at this number s, whatever
// an exchange costs: if it costs c iterations, their speed falls as 1 / (s + c) beyond, and rises
// as 1 / (1 + c / s) below. So their segments are paced to it.
inline constexpr double kMaxAveragedIterations = 3.5;

// Whether this value of Topology.scaling multiplies the learning rate. None: it is not one of
// kScalings.
inline constexpr char kScalings[] = "linear or none";
inline std::optional<bool> ScalesRate(const std::string& scaling) {
  if (scaling != "linear" && scaling != "none") return std::nullopt;
  return scaling == "linear";
}

struct DefaultMergeRule {
  MergeRuleConfig rule;  // with all its parameters
  bool damping = true;   // outer and average bound the sum of a round themselves
  // Members multiply their learning rate by their number (rate_scale.h).
  bool scales_rate = false;
  // Encodings of diffs and positions: int8 with a scaled rate, where fresh exchanges are worth more
  // than exact ones (docs/benchmarks/learning.md).
  Codec codec = Codec::kFloat32, position_codec = Codec::kFloat32;
  std::string reason;  // in words: "outer with ..., the default for ..."
};

// For a segment of so many members at its start. `alone`: no other segment exchanges the same
// weights on one of the members; else the rule is additive, because each of two others would change
// what the other adds. `scales`: the members may have another learning rate than that of the solver
// file.
DefaultMergeRule DefaultMergeRuleFor(int members, bool alone = true, bool scales = false);

// Whether a segment that names this rule, and not `damping`, is damped. delay_compensated and
// gap_aware are not: every position would correct the progress that is held back once more.
bool IsDampedByDefault(const std::string& rule);

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_DEFAULT_MERGE_RULE_H_
