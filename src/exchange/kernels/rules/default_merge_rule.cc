#include "exchange/kernels/rules/default_merge_rule.h"

#include <algorithm>

#include "base/error.h"

namespace millrace::inline exchange {
namespace {

// The outer optimizer of DiLoCo (Douillard et al., 2023) for N members: Nesterov momentum, once per
// round of N diffs.
constexpr double kRate = 0.7, kMomentum = 0.9;

// Bounds of a parameter of a registered rule.
double Within(const MergeRuleDescriptor& rule, const char* name, double value) {
  const PartParameter& parameter = *rule.FindParameter(name);
  return std::clamp(value, parameter.least, parameter.most);
}

}  // namespace

DefaultMergeRule DefaultMergeRuleFor(int members, bool alone, bool scales) {
  DefaultMergeRule chosen;
  const bool averages = members >= kMinAveragingMembers && members <= kMaxAveragingMembers;
  if (averages && alone && scales) {
    chosen.rule.name = "average";
    chosen.damping = false;
    chosen.scales_rate = true;
    chosen.codec = chosen.position_codec = Codec::kInt8;
    chosen.reason = StrCat(
        "average, at a learning rate times the number of members: the default for ",
        kMinAveragingMembers, " to ", kMaxAveragingMembers, ", of which there are ", members);
    return chosen;
  }
  const bool many = members > kMaxAdditiveMembers;
  if (many && alone) {
    const MergeRuleDescriptor& outer = *MergeRuleRegistry::Get().Find("outer");
    const double rate = Within(outer, "rate", kRate / members);
    const double delay = Within(outer, "delay", members);
    chosen.rule = {outer.name,
                   {{"rate", rate}, {"momentum", kMomentum}, {"nesterov", 1}, {"delay", delay}}};
    chosen.damping = false;
    chosen.reason = StrCat("outer with Nesterov momentum, rate ", rate, " and delay ", delay,
                           ", undamped: the default for more than ", kMaxAdditiveMembers,
                           " members, of which there are ", members);
    return chosen;
  }
  chosen.rule.name = "additive";
  chosen.reason = many
                      ? StrCat("additive: the default for ", members,
                               " members would be outer, but another segment shares weights "
                               "with this one")
                      : StrCat("additive: the default for up to ", kMaxAdditiveMembers, " members");
  return chosen;
}

bool IsDampedByDefault(const std::string& rule) {
  return rule != "delay_compensated" && rule != "gap_aware";
}

}  // namespace millrace::inline exchange
