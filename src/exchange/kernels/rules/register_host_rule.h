// Registers a merge rule whose code is a struct, for replicas in host memory. Host code only; files
// that include this header must be compiled with -ffp-contract=off, so that all nodes compute the
// same bits.
#ifndef MILLRACE_EXCHANGE_KERNELS_RULES_REGISTER_HOST_RULE_H_
#define MILLRACE_EXCHANGE_KERNELS_RULES_REGISTER_HOST_RULE_H_

#include <memory>
#include <type_traits>
#include <utility>

#include "exchange/kernels/host_rule_executor.h"
#include "exchange/kernels/rules/merge_rule_registry.h"

namespace millrace::inline exchange {

// Define one at namespace scope. `make(parameters)` returns the rule's struct for parameters that
// are complete and in range. Sets the descriptor's state_floats and zero_changes_nothing.
template <typename Make>
struct RegisterHostRule {
  RegisterHostRule(MergeRuleDescriptor descriptor, Make make) {
    using Rule = std::invoke_result_t<Make, const RuleParameters&>;
    static_assert(MergeRuleType<Rule>);
    descriptor.state_floats = Rule::kStateFloats;
    descriptor.zero_changes_nothing = Rule::kZeroChangesNothing;
    MergeRuleRegistry::Get().Register(
        std::move(descriptor),
        [make](const ReplicaArrays& arrays, const CodecConfig& codec,
               const RuleParameters& parameters, Simd simd, RangeLock* lock) {
          return std::make_unique<HostRuleExecutor<Rule>>(arrays, codec, make(parameters), simd,
                                                          lock);
        },
        RuleReach::kAll, kNeedsSparse<Rule>, kMergesOwn<Rule>);
  }
};

}  // namespace millrace::inline exchange

#endif  // MILLRACE_EXCHANGE_KERNELS_RULES_REGISTER_HOST_RULE_H_
