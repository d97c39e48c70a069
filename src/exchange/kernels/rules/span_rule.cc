// Registers rules over spans.
#include "exchange/kernels/rules/span_rule.h"

#include <utility>

#include "base/error.h"
#include "base/registration.h"
#include "exchange/kernels/host_rule_executor.h"
#include "exchange/kernels/rules/merge_rule_registry.h"

namespace millrace {
namespace {

template <bool kZero>
MergeRuleRegistry::HostMaker MakerOf(const std::string& name, int state_floats,
                                     MergeRuleFactory make) {
  return
      [name, state_floats, make = std::move(make)](
          const ReplicaArrays& arrays, const CodecConfig& codec, const RuleParameters& parameters,
          Simd simd, RangeLock* lock) -> std::unique_ptr<ChunkExecutor> {
        SpanRule<kZero> rule{make(parameters), state_floats};
        if (rule.rule == nullptr) throw Error("merge rule ", name, ": its factory has made none");
        return std::make_unique<HostRuleExecutor<SpanRule<kZero>>>(arrays, codec, rule, simd, lock);
      };
}

}  // namespace

RegisterMergeRule::RegisterMergeRule(MergeRuleDescriptor descriptor, MergeRuleFactory make) {
  if (!make) {
    ReportBadRegistration(StrCat("merge rule ", descriptor.name, ": it has no factory"));
    return;
  }
  const auto maker = descriptor.zero_changes_nothing ? MakerOf<true> : MakerOf<false>;
  auto host_maker = maker(descriptor.name, descriptor.state_floats, std::move(make));
  MergeRuleRegistry::Get().Register(std::move(descriptor), std::move(host_maker), RuleReach::kHost);
}

}  // namespace millrace
