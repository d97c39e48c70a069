// How diffs are offered, kept and merged. A rule is one header with a small
// struct (additive_rule.h), one value of MergeRule and one line of
// VisitMergeRule; executors take it as a template argument.
//
// A rule has, for T = float and for vectors of floats in host loops, const and
// MILLRACE_HOST_DEVICE (names as in chunk_op.h):
//   static constexpr bool kHasState   it keeps one float an element at the master,
//                                     in ReplicaArrays::rule_state, zero at first
//   static constexpr bool kZeroChangesNothing   Merge() by d = 0 leaves w (but for
//                                     the sign of a 0) and the state as they are:
//                                     a sparse difference touches what is present
//   T Select(T u)                      worker: what is to travel of the progress u
//   T Residual(T u, T d)                  worker: what stays in w - base when d travels
//                                     (d = 0 when nothing does)
//   T Apply(T w, T d, T& state, uint32_t staleness)
//                                     master: the new w; may change state if
//                                     kHasState. staleness: ChunkOp::staleness
// Its parameters are its members. An element whose Offer is not finite, or rounds
// to what is not, is not taken: d = 0.
#ifndef MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_H_

#include <concepts>
#include <cstdint>

#include "exchange/kernels/additive_rule.h"

namespace millrace {

template <typename Rule>
concept MergeRuleType = requires(const Rule& rule, float x, float& state, uint32_t staleness) {
  { Rule::kHasState } -> std::convertible_to<bool>;
  { Rule::kZeroChangesNothing } -> std::convertible_to<bool>;
  { rule.Select(x) } -> std::same_as<float>;
  { rule.Residual(x, x) } -> std::same_as<float>;
  { rule.Apply(x, x, state, staleness) } -> std::same_as<float>;
};

enum class MergeRule : uint8_t {
  kAdditive = 0,
};

// A rule by name, with the parameters of all rules; each reads its own.
struct MergeRuleConfig {
  MergeRule rule = MergeRule::kAdditive;
};

// visit(rule) with the struct that `config` names.
template <typename Visitor>
auto VisitMergeRule(const MergeRuleConfig& config, Visitor visit) {
  switch (config.rule) {
    case MergeRule::kAdditive:
      break;
  }
  return visit(AdditiveRule{});
}

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_H_
