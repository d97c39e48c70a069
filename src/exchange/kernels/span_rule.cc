// Registers rules over spans.
#include "exchange/kernels/span_rule.h"

#include <utility>

#include "base/error.h"
#include "base/registration.h"
#include "exchange/kernels/host_rule_executor.h"
#include "exchange/kernels/merge_rule_registry.h"

namespace millrace {
namespace {

template <bool kState, bool kZero>
MergeRuleRegistry::HostMaker MakerOf(const std::string& name, MergeRuleFactory make) {
  return [name, make = std::move(make)](const ReplicaArrays& arrays, const CodecConfig& codec,
                                        const RuleParameters& parameters, Simd simd,
                                        RangeLock* lock) -> std::unique_ptr<ChunkExecutor> {
    SpanRule<kState, kZero> rule{make(parameters)};
    if (rule.rule == nullptr) throw Error("merge rule ", name, ": its factory has made none");
    return std::make_unique<HostRuleExecutor<SpanRule<kState, kZero>>>(arrays, codec, rule, simd,
                                                                       lock);
  };
}

}  // namespace

RegisterMergeRule::RegisterMergeRule(MergeRuleDescriptor descriptor, MergeRuleFactory make) {
  if (!make) {
    ReportBadRegistration(StrCat("merge rule ", descriptor.name, ": it has no factory"));
    return;
  }
  const bool zero = descriptor.zero_changes_nothing;
  const auto maker = descriptor.has_state ? (zero ? MakerOf<true, true> : MakerOf<true, false>)
                                          : (zero ? MakerOf<false, true> : MakerOf<false, false>);
  auto host_maker = maker(descriptor.name, std::move(make));
  MergeRuleRegistry::Get().Register(std::move(descriptor), std::move(host_maker), RuleReach::kHost);
}

}  // namespace millrace
