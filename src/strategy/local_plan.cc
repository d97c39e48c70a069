// The strategy "local" and its fields in the solver file.
#include <cmath>
#include <memory>
#include <utility>

#include "proto/part_values.h"
#include "strategy/local.h"
#include "strategy/strategy_plans.h"

namespace millrace::inline strategy {
namespace {

using Rule = MergeSettings::Rule;

struct LocalRule {
  PartDescriptor part;
  Rule rule;
};

const PartRegistry<LocalRule>& LocalRules() {
  static const PartRegistry<LocalRule> rules(
      "merge rule of the strategy local",
      {{{.name = "additive"}, Rule::kAdditive},
       {{.name = "average", .parameters = {{.name = "share", .least = 0, .most = 1}}},
        Rule::kAverage},
       {{.name = "easgd",
         .parameters = {{.name = "pull", .least = 1e-6, .most = 1, .required = true}}},
        Rule::kElastic}});
  return rules;
}

// Reads the periods and the rule. Throws FieldError.
MergeSettings MergeSettingsOf(const caffe::StrategyParameter& strategy, const PartValues& values,
                              bool has_conditions) {
  MergeSettings settings;
  settings.fetch = static_cast<int64_t>(values.at("fetch"));
  settings.push = static_cast<int64_t>(values.at("push"));
  if (strategy.has_merge_rule()) {
    const caffe::PartParameter& rule = strategy.merge_rule();
    const std::string field = "strategy.merge_rule";
    const auto [entry, of_rule] = LocalRules().Choose(field, rule.type(), ValuesOf(rule.param()));
    settings.rule = entry.rule;
    if (settings.rule == Rule::kAverage) settings.share = of_rule.at("share");
    if (settings.rule == Rule::kElastic) settings.pull = of_rule.at("pull");
  }
  if (settings.rule != Rule::kAdditive && (settings.fetch > 0 || settings.push > 0)) {
    throw FieldError("strategy.param",
                     "fetch and push are for the merge rule additive, expected a "
                     "sync_condition for the merge rule ",
                     strategy.merge_rule().type());
  }
  if (has_conditions) return settings;
  if (settings.fetch == 0 && settings.push == 0) {
    throw FieldError("strategy.sync_condition",
                     "is missing, expected when solvers merge: a sync_condition, or the parameters "
                     "fetch and push");
  }
  for (const char* name : {"fetch", "push"}) {
    if (values.at(name) > 0) continue;
    throw FieldError("strategy.param", name,
                     " is missing, expected a period >= 1, or a sync_condition");
  }
  return settings;
}

}  // namespace

LocalPlan::LocalPlan(const caffe::SolverParameter& param, const PartValues& values)
    : conditions(param.strategy()) {
  merge = MergeSettingsOf(param.strategy(), values, !conditions.empty());
  const bool elastic = merge.rule == Rule::kElastic;
  if (!elastic && !conditions.Make().have_state()) return;
  rule_with_state = StrCat("local ", elastic ? "easgd" : "with conditions that learn");
}

StrategyMaker LocalPlan::Make(const StrategyContext& context) const {
  return [this, context](int index) {
    LocalConfig config(Merger());
    config.solvers = context.solvers;
    config.clock = context.clock;
    config.has_peers = context.has_peers;
    auto strategy = std::make_unique<LocalStrategy>(context.weights, std::move(config),
                                                    context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

namespace {

const RegisterStrategy local(
    {{.name = "local",
      .parameters = {{.name = "fetch", .least = 0, .most = 1e9, .whole = true},
                     {.name = "push", .least = 0, .most = 1e9, .whole = true}}},
     MakePlan<LocalPlan>});

}  // namespace
}  // namespace millrace::inline strategy
