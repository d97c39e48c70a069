#include "exchange/kernels/rules/merge_rule_registry.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/registration.h"
#include "base/text/names.h"
#include "exchange/kernels/codec_config.h"

namespace millrace {
namespace {

// Problem of the descriptor; "" if there is none.
std::string ProblemOf(const MergeRuleDescriptor& rule) {
  if (!IsName(rule.name)) return StrCat("expected a name of ", kExpectedName);
  if (rule.state_floats < 0 || rule.state_floats > kMaxStateFloats) {
    return StrCat("state_floats is ", rule.state_floats, ", expected 0 to ", kMaxStateFloats);
  }
  for (const PartParameter& each : rule.parameters) {
    if (!IsName(each.name)) {
      return StrCat("parameter \"", each.name, "\": expected a name of ", kExpectedName);
    }
    if (rule.FindParameter(each.name) != &each) {
      return StrCat("parameter ", each.name, " is there twice, expected it once");
    }
    if (each.whole || each.required) {
      return StrCat("parameter ", each.name, " is whole or required, expected neither");
    }
    if (!each.Accepts(each.default_value)) {
      return StrCat("parameter ", each.name, " is ", each.default_value, " by default, expected ",
                    each.least, " to ", each.most);
    }
  }
  return "";
}

}  // namespace

const PartParameter* MergeRuleDescriptor::FindParameter(const std::string& parameter) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(),
                   [&](const PartParameter& each) { return each.name == parameter; });
  return found == parameters.end() ? nullptr : &*found;
}

RuleParameters MergeRuleDescriptor::WithDefaults(const RuleParameters& given) const {
  RuleParameters all = given;
  for (const PartParameter& each : parameters) all.emplace(each.name, each.default_value);
  return all;
}

float MergeRuleDescriptor::RestDistance(const RuleParameters& given) const {
  return rest_distance ? rest_distance(WithDefaults(given)) : 0;
}

MergeRuleRegistry& MergeRuleRegistry::Get() {
  static MergeRuleRegistry registry;
  return registry;
}

void MergeRuleRegistry::Register(MergeRuleDescriptor descriptor, HostMaker make_host_executor,
                                 RuleReach reach, bool needs_sparse, bool merges_own) {
  const std::string name = descriptor.name;
  const std::string problem = ProblemOf(descriptor);
  if (problem.empty()) {
    Entry entry{std::move(descriptor), std::move(make_host_executor), reach, needs_sparse,
                merges_own};
    if (!entries_.emplace(name, std::move(entry)).second) {
      ReportSecondRegistration("merge rule", name);
    }
    return;
  }
  ReportBadRegistration(StrCat("merge rule ", name, ": ", problem));
}

const MergeRuleDescriptor* MergeRuleRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second.descriptor;
}

std::vector<std::string> MergeRuleRegistry::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const MergeRuleDescriptor& MergeRuleRegistry::Check(const MergeRuleConfig& config) const {
  const MergeRuleDescriptor* const rule = Find(config.name);
  if (rule == nullptr) {
    throw Error("unknown merge rule ", config.name, ": expected one of ", Joined(Names()));
  }
  for (const auto& [name, value] : config.parameters) {
    const PartParameter* const parameter = rule->FindParameter(name);
    if (parameter == nullptr) {
      throw Error("merge rule ", config.name, ": it has no parameter ", name);
    }
    if (!parameter->Accepts(value)) {
      throw Error("merge rule ", config.name, ": ", name, " is ", value, ": expected ",
                  parameter->least, " to ", parameter->most);
    }
  }
  return *rule;
}

void MergeRuleRegistry::CheckCodec(const std::string& name, const CodecConfig& codec) const {
  if (WorksWith(name, codec)) return;
  throw Error("merge rule ", name, ": codec is ", CodecName(codec),
              ", which leaves nothing unsent: expected sparse, topk or random");
}

std::unique_ptr<ChunkExecutor> MergeRuleRegistry::MakeHostExecutor(const ReplicaArrays& arrays,
                                                                   const CodecConfig& codec,
                                                                   const MergeRuleConfig& config,
                                                                   Simd simd,
                                                                   RangeLock* lock) const {
  const RuleParameters parameters = Check(config).WithDefaults(config.parameters);
  CheckCodec(config.name, codec);
  return entries_.at(config.name).make_host_executor(arrays, codec, parameters, simd, lock);
}

}  // namespace millrace
