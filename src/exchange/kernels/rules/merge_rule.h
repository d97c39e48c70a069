// Merge rules: how diffs are selected by workers and merged by masters. A rule is a header with a
// small struct (additive_rule.h), registered by name in rules_host.cc for the host
// (register_host_rule.h) and in rules_cuda.cu for GPUs (cuda_rule_kernel.h). Executors take the
// struct as a template argument. merge_rule_registry.h describes rules without their code.
//
// A rule has the following members. The functions are const and MILLRACE_HOST_DEVICE; T is float,
// or a vector of floats in host loops. For w, u and d see chunk_op.h.
//   static constexpr int kStateFloats   the master keeps this many floats per element in
//                                     ReplicaArrays::rule_state, zero when it becomes master
//   static constexpr bool kZeroChangesNothing   Apply() with d = 0 does not change the state
//                                     or w, except for the sign of a 0; a sparse diff then
//                                     touches only the present elements
//   T Select(T u)                     worker: the part of progress u to send
//   T Residual(T u, T d)              worker: the part of u that stays in w - base when a diff of
//                                     the chunk is sent, in which the element has d. Where no diff
//                                     is sent, all of u stays. Residual(u, 0) = u, unless
//                                     kChangesUnsent
//   T Apply(T w, T d, T* state, uint32_t staleness)
//                                     master: the new w; may change state[0] to
//                                     state[kStateFloats - 1]. staleness: see ChunkOp::staleness
// and may have
//   static constexpr bool kChangesUnsent = true   Residual(u, 0) is not u. Where a share s of the
//                                     progress is offered (ChunkOp::share), what stays is
//                                     Residual(s u, d) + (u - s u): damping's part as it is
//   static constexpr bool kMergesOwn = true   a master merges the progress of its own solvers with
//                                     Apply() before it sends a position (ChunkOpKind::kMergeOwn),
//                                     as the diffs of workers. Without it, that progress counts in
//                                     full. Select(u) = u, and Apply(w, ...) - w does not depend on
//                                     w
//   static constexpr bool kTakesShare = true  and a member `share`, which is ChunkOp::share in
//                                     Apply()
//   static constexpr bool kNeedsSparse = true     the rule has an effect only where a codec leaves
//                                     elements unsent; refused with all others
//   T Compensate(T u, T moved, T* state)
//                                     worker: the progress in place of u, of which a diff is taken
//                                     with a position that moves the base by `moved`; u if that is
//                                     0. May change the state, once for each take; then Apply()
//                                     does not use it
//   Rule Aligned(float ds, float dd, float ss)
//                                     master: the rule that merges a diff of which ds, dd and ss
//                                     are the sums over the chunk of d s, d d and s s, where s is
//                                     state[0] before the diff (alignment.h). kZeroChangesNothing
//                                     is false
// Parameters of a rule are data members. An element is not taken (d = 0) if the result of Select()
// is not finite or rounds to a value that is not finite.
//
// Fixed point: without new progress, repeated u := Residual(u, d) with d = Select(u) must reach
// Select(u) = 0 in all elements after finitely many diffs. No worker then sends a diff, no master
// merges one, and all nodes are at rest. The descriptor states the largest |u| that may remain
// (MergeRuleDescriptor::rest_distance).
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_H_

#include <concepts>
#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline exchange {

template <typename Rule>
concept MergeRuleType = requires(const Rule& rule, float x, float* state, uint32_t staleness) {
  { Rule::kStateFloats } -> std::convertible_to<int>;
  { Rule::kZeroChangesNothing } -> std::convertible_to<bool>;
  { rule.Select(x) } -> std::same_as<float>;
  { rule.Residual(x, x) } -> std::same_as<float>;
  { rule.Apply(x, x, state, staleness) } -> std::same_as<float>;
};

// The optional members.
template <typename Rule>
inline constexpr bool kCompensates = requires(const Rule& rule, float x) {
  rule.Compensate(x, x, &x);
};
template <typename Rule>
inline constexpr bool kAligns = requires(const Rule& rule, float x) {
  rule.Aligned(x, x, x);
};
template <typename Rule>
inline constexpr bool kChangesUnsent = requires {
  Rule::kChangesUnsent;
};
template <typename Rule>
inline constexpr bool kMergesOwn = requires {
  Rule::kMergesOwn;
};
template <typename Rule>
inline constexpr bool kTakesShare = requires {
  Rule::kTakesShare;
};
template <typename Rule>
inline constexpr bool kNeedsSparse = requires {
  Rule::kNeedsSparse;
};

// The rule with which an operation of this share merges.
template <typename Rule>
MILLRACE_HOST_DEVICE Rule Merging(const Rule& rule, [[maybe_unused]] float share) {
  Rule merging = rule;
  if constexpr (kTakesShare<Rule>) merging.share = share;
  return merging;
}

// Size of an array for the state of an element; at least 1.
template <typename Rule>
inline constexpr int kStateRoom = Rule::kStateFloats > 0 ? Rule::kStateFloats : 1;

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_H_
