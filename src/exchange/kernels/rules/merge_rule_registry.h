// The merge rules of this program, by name: what each is called, its parameters, its state and its
// fixed point. Topology files are validated with descriptors; executors are made from a
// MergeRuleConfig. The code of a rule is a struct (merge_rule.h, register_host_rule.h) or works on
// spans (millrace/merge_rule.h, span_rule.h).
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_REGISTRY_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/simd.h"
#include "base/threads/range_lock.h"
#include "exchange/kernels/chunk_op.h"
#include "millrace/merge_rule.h"

namespace millrace::inline exchange {

// A rule, and those of its parameters that do not have their defaults. Equal on all nodes.
struct MergeRuleConfig {
  std::string name = "additive";
  RuleParameters parameters;
};

// The memory spaces of replicas that a rule has code for, as far as a topology file can tell.
enum class RuleReach {
  kHost,  // host memory only
  kAll,   // also the memory of GPUs, if the build has its kernel
};

// Registration is not thread-safe; it happens before main(), or while a plugin is loaded, when no
// other thread uses the registry. The rest is thread-safe.
class MergeRuleRegistry {
 public:
  // Makes a host executor (host_executor.h). All parameters are given.
  using HostMaker = std::function<std::unique_ptr<ChunkExecutor>(
      const ReplicaArrays& arrays, const CodecConfig& codec, const RuleParameters& parameters,
      Simd simd, RangeLock* lock)>;

  static MergeRuleRegistry& Get();

  // Keeps the first rule of a name. A second one, or a descriptor with a mistake, is reported
  // (base/registration.h). `needs_sparse`, `merges_own`: the members of rules (merge_rule.h).
  void Register(MergeRuleDescriptor descriptor, HostMaker make_host_executor,
                RuleReach reach = RuleReach::kAll, bool needs_sparse = false,
                bool merges_own = false);

  // Null if there is no rule of that name. Valid for the program's lifetime.
  const MergeRuleDescriptor* Find(const std::string& name) const;
  // What a registered rule reaches.
  RuleReach ReachOf(const std::string& name) const { return entries_.at(name).reach; }
  // Whether a registered rule merges a master's own progress as a diff (kMergesOwn).
  bool MergesOwn(const std::string& name) const { return entries_.at(name).merges_own; }
  // Sorted.
  std::vector<std::string> Names() const;
  // The descriptor of a valid configuration. Throws Error with one line if the rule or a parameter
  // is unknown, or a value is out of range.
  const MergeRuleDescriptor& Check(const MergeRuleConfig& config) const;
  // False if the rule, which is registered, has no effect with this codec.
  bool WorksWith(const std::string& name, const CodecConfig& codec) const {
    return !entries_.at(name).needs_sparse || codec.codec == Codec::kSparse;
  }
  // Throws Error with one line if the rule, which is registered, has no effect with this codec.
  void CheckCodec(const std::string& name, const CodecConfig& codec) const;
  // Throws Error as Check and CheckCodec do.
  std::unique_ptr<ChunkExecutor> MakeHostExecutor(const ReplicaArrays& arrays,
                                                  const CodecConfig& codec,
                                                  const MergeRuleConfig& config, Simd simd,
                                                  RangeLock* lock) const;

 private:
  struct Entry {
    MergeRuleDescriptor descriptor;
    HostMaker make_host_executor;
    RuleReach reach;
    bool needs_sparse;
    bool merges_own;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_MERGE_RULE_REGISTRY_H_
