#include "topology/read_fields.h"

namespace millrace::inline topology {
namespace {

std::string OneOf(const std::vector<std::string>& names) {
  return names.size() == 1 ? names[0] : "one of " + NameList(names);
}

// Adds a parameter of the file, which is at `field`.
void ReadParameter(const std::string& field, const topology_file::Parameter& given,
                   const MergeRuleDescriptor& rule, RuleParameters* parameters) {
  if (given.key().empty()) throw FieldError(field + ".key", "missing, expected a name");
  const PartParameter* const parameter = rule.FindParameter(given.key());
  if (parameter == nullptr) {
    std::vector<std::string> known;
    for (const PartParameter& each : rule.parameters) known.push_back(each.name);
    throw FieldError(field + ".key", "\"", given.key(), "\" given, expected ",
                     known.empty() ? "none" : OneOf(known), " with merge rule ", rule.name);
  }
  if (!given.has_value()) throw FieldError(field + ".value", "missing, expected a number");
  if (!parameter->Accepts(given.value())) {
    throw FieldError(field + ".value", given.value(), " given, expected ", parameter->least, " to ",
                     parameter->most, " for ", parameter->name);
  }
  if (!parameters->emplace(given.key(), given.value()).second) {
    throw FieldError(field + ".key", "\"", given.key(), "\" is there twice, expected it once");
  }
}

}  // namespace

MergeRuleConfig ReadMergeRule(const std::string& path, const topology_file::Segment& segment) {
  MergeRuleConfig config;
  config.name = segment.merge_rule();
  const MergeRuleDescriptor* const rule = MergeRuleRegistry::Get().Find(config.name);
  if (rule == nullptr) {
    throw FieldError(path + ".merge_rule", "\"", config.name, "\" given, expected ",
                     OneOf(MergeRuleRegistry::Get().Names()));
  }
  for (int i = 0; i < segment.merge_rule_param_size(); ++i) {
    ReadParameter(StrCat(path, ".merge_rule_param[", i, "]"), segment.merge_rule_param(i), *rule,
                  &config.parameters);
  }
  config.parameters = rule->WithDefaults(config.parameters);
  return config;
}

}  // namespace millrace::inline topology
