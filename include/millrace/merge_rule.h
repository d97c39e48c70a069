// Merge rules of one's own: how a worker selects the diffs that it sends, and how the master of a
// chunk combines a diff with its weights. A topology file chooses a rule by name and sets its
// parameters (docs/topology.md, "Merge rules"); docs/guides/merge_rule.md is a guide with a
// complete example.
//
// Per element, a worker keeps the live weight w, and `base`: the master's weight as it knows it,
// plus the diff that is on its way. u = w - base is the progress that it has not sent. When a
// position (the master's weight) arrives, or the worker sends a diff d,
//   d    = codec(share * Select(u)), or 0 if it sends none
//   base = position + the diff that is on its way
//   w    = base + Residual(u, d)
// and the master of the chunk computes w = Apply(w, d). `share` is 1, or less where stale progress
// is damped. The codec rounds: d may differ from Select(u), and what it drops has to stay in
// Residual(u, d). An element whose Select(u) is not finite, or has no finite code, is not sent
// (d = 0).
//
// Fixed point: without new progress, repeated u := Residual(u, d) with d = Select(u) must reach
// Select(u) = 0 in all elements after finitely many diffs. Otherwise nodes never come to rest, and
// a run does not end.
#ifndef MILLRACE_MERGE_RULE_H_
#define MILLRACE_MERGE_RULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"
#include "millrace/part.h"

namespace millrace {

// Values of a rule's parameters, by name.
using RuleParameters = PartValues;

// Largest number of floats of state per element.
inline constexpr int kMaxStateFloats = 4;

struct MILLRACE_API MergeRuleDescriptor {
  std::string name;  // as topology files name it: lower-case letters, digits, '_'
  std::vector<PartParameter> parameters = {};  // neither whole nor required
  // The fixed point of the rule: without new progress, exchanges end once |w - base| is at most
  // this in every element of every worker. Null: 0; all replicas are then equal bit by bit. Above
  // 0: what remains is dropped at the end of a run, which makes replicas equal; segments that share
  // weights on a node refuse the rule. Called with all parameters.
  std::function<float(const RuleParameters&)> rest_distance = nullptr;
  // The master keeps this many floats per element, at most kMaxStateFloats. They are 0 when it
  // becomes the chunk's master, and do not travel.
  int state_floats = 0;
  // Apply() with d = 0 changes neither w, except for the sign of a 0, nor the state. A sparse diff
  // then costs only its present elements.
  bool zero_changes_nothing = false;

  // Null if there is none of that name.
  const PartParameter* FindParameter(const std::string& parameter) const;
  // `given` and the defaults of the other parameters.
  RuleParameters WithDefaults(const RuleParameters& given) const;
  float RestDistance(const RuleParameters& given) const;
};

// The formulas of a rule. All functions get a block of elements, some hundreds; spans of one call
// have the same length (of `state`: a multiple) and do not overlap. They are element-wise and pure:
// a result depends on the arguments of its element (and the rule's parameters) alone, since the
// division into blocks and the order of elements are arbitrary. They work on copies, so
// intermediate values do no harm. They do not throw and do not allocate. One thread at a time calls
// an object; a process has one for each segment.
//
// Results need not be the same on all nodes bit by bit, but compilers that fuse products with sums
// (GCC with -march=native) make runs depend on the processor: -ffp-contract=off avoids this.
class MILLRACE_API MergeRule {
 public:
  virtual ~MergeRule() = default;
  // Worker: selected[i] = Select(u[i]), the part of the progress to send.
  virtual void Select(std::span<const float> u, std::span<float> selected) const = 0;
  // Worker: rest[i] = Residual(u[i], d[i]), what stays in w - base when d is sent; d is 0 if
  // nothing is sent.
  virtual void Residual(std::span<const float> u, std::span<const float> d,
                        std::span<float> rest) const = 0;
  // Master: w[i] = Apply(w[i], d[i]), which may change the state of its element. `state` has
  // state_floats * w.size() floats: float k of element i is state[k * w.size() + i]. `staleness`:
  // number of positions (>= 0) that the master has sent since the one from which the diff was
  // computed.
  virtual void Apply(std::span<float> w, std::span<const float> d, std::span<float> state,
                     uint32_t staleness) const = 0;
};

// Makes the rule for parameters that are complete and in range. Throws Error in one line if they
// contradict each other.
using MergeRuleFactory = std::function<std::unique_ptr<MergeRule>(const RuleParameters&)>;

// Registers a rule for weights in host memory; a topology file whose nodes keep weights in the
// memory of a GPU cannot name it. Define one at namespace scope. The first rule of a name stays. A
// second one, or a descriptor with a mistake, is an error when plugins are loaded and when a
// session or cluster member starts.
struct MILLRACE_API RegisterMergeRule {
  RegisterMergeRule(MergeRuleDescriptor descriptor, MergeRuleFactory make);
};

}  // namespace millrace

#endif  // MILLRACE_MERGE_RULE_H_
