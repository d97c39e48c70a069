// The merge rules of this program, by name: what each is called, its parameters, its state and its
// fixed point. Topology files are validated with descriptors; executors are made from a
// MergeRuleConfig. merge_rule.h describes the rules' code.
#ifndef MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_REGISTRY_H_
#define MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/range_lock.h"
#include "base/simd.h"
#include "exchange/kernels/chunk_op.h"

namespace millrace {

// Values of a rule's parameters, by name.
using RuleParameters = std::map<std::string, double>;

// A rule, and those of its parameters that do not have their defaults. Equal on all nodes.
struct MergeRuleConfig {
  std::string name = "additive";
  RuleParameters parameters;
};

struct RuleParameter {
  std::string name;
  double fallback = 0, least = 0, most = 0;

  // False for NaN too.
  bool Accepts(double value) const { return value >= least && value <= most; }
};

struct MergeRuleDescriptor {
  std::string name;
  std::vector<RuleParameter> parameters;
  // The fixed point of the rule: without new progress, exchanges end once |w - base| is at most
  // this in every element of every worker. Null: 0; all replicas are then equal bit by bit. Above
  // 0: what remains is dropped at the end of a run, which makes replicas equal.
  std::function<float(const RuleParameters&)> rest_distance = nullptr;
  // The master keeps one float per element. Set by RegisterMergeRule, from Rule::kHasState.
  bool has_state = false;

  // Null if there is none of that name.
  const RuleParameter* FindParameter(const std::string& parameter) const;
  // `given` and the defaults of the other parameters.
  RuleParameters WithDefaults(const RuleParameters& given) const;
  float RestDistance(const RuleParameters& given) const;
};

// Registration is not thread-safe; it happens before main(). The rest is thread-safe.
class MergeRuleRegistry {
 public:
  // Makes a host executor (host_executor.h). All parameters are given.
  using HostMaker = std::function<std::unique_ptr<ChunkExecutor>(
      const ReplicaArrays& arrays, const CodecConfig& codec, const RuleParameters& parameters,
      Simd simd, RangeLock* lock)>;

  static MergeRuleRegistry& Get();

  void Register(MergeRuleDescriptor descriptor, HostMaker make_host_executor);

  // Null if there is no rule of that name. Valid for the program's lifetime.
  const MergeRuleDescriptor* Find(const std::string& name) const;
  // Sorted.
  std::vector<std::string> Names() const;
  // The descriptor of a valid configuration. Throws Error with one line if the rule or a parameter
  // is unknown, or a value is out of range.
  const MergeRuleDescriptor& Check(const MergeRuleConfig& config) const;
  // Throws Error as Check does.
  std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                  const CodecConfig& codec,
                                                  const MergeRuleConfig& config, Simd simd,
                                                  RangeLock* lock) const;

 private:
  struct Entry {
    MergeRuleDescriptor descriptor;
    HostMaker make_host_executor;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace millrace

#endif  // MILLRACE_EXCHANGE_KERNELS_MERGE_RULE_REGISTRY_H_
