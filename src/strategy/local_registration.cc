// The strategy "local" and its fields in the solver file.
#include <cmath>
#include <memory>
#include <utility>

#include "proto/part_values.h"
#include "solver/strategy_registry.h"
#include "strategy/local.h"

namespace millrace::inline strategy {
namespace {

using Rule = MergerConfig::Rule;

struct LocalRule {
  PartDescriptor part;
  Rule rule;
};

const PartRegistry<LocalRule>& LocalRules() {
  static const PartRegistry<LocalRule> rules = [] {
    PartRegistry<LocalRule> made("merge rule of the strategy local");
    made.Register({{.name = "additive"}, Rule::kAdditive});
    made.Register({{.name = "average", .parameters = {{.name = "share", .least = 0, .most = 1}}},
                   Rule::kAverage});
    made.Register({{.name = "easgd",
                    .parameters = {{.name = "pull", .least = 1e-6, .most = 1, .required = true}}},
                   Rule::kElastic});
    return made;
  }();
  return rules;
}

}  // namespace

MergerConfig MergerConfigOf(const caffe::StrategyParameter& strategy) {
  MergerConfig config;
  config.conditions = SyncConditions(strategy);
  const PartValues values = ChooseStrategy(strategy).values;
  config.fetch = static_cast<int64_t>(values.at("fetch"));
  config.push = static_cast<int64_t>(values.at("push"));
  if (strategy.has_merge_rule()) {
    const caffe::PartParameter& rule = strategy.merge_rule();
    const std::string field = "strategy.merge_rule";
    const auto [entry, of_rule] = LocalRules().Choose(field, rule.type(), ValuesOf(rule.param()));
    config.rule = entry.rule;
    if (config.rule == Rule::kAverage) config.share = of_rule.at("share");
    if (config.rule == Rule::kElastic) config.pull = of_rule.at("pull");
  }
  if (config.rule != Rule::kAdditive && (config.fetch > 0 || config.push > 0)) {
    throw FieldError("strategy.param",
                     "fetch and push are for the merge rule additive, expected a "
                     "sync_condition for the merge rule ",
                     strategy.merge_rule().type());
  }
  if (!config.conditions.empty()) return config;
  if (config.fetch == 0 && config.push == 0) {
    throw FieldError("strategy.sync_condition",
                     "is missing, expected when solvers merge: a sync_condition, or the parameters "
                     "fetch and push");
  }
  for (const char* name : {"fetch", "push"}) {
    if (values.at(name) > 0) continue;
    throw FieldError("strategy.param", name,
                     " is missing, expected a period >= 1, or a sync_condition");
  }
  return config;
}

namespace {

void CheckLocal(const caffe::SolverParameter& param) { MergerConfigOf(param.strategy()); }

StrategyMaker MakeLocal(const StrategyContext& context) {
  return [context](int index) {
    // Conditions belong to the thread of their solver.
    LocalConfig config(MergerConfigOf(context.config->param.strategy()));
    config.solvers = context.solvers;
    config.clock = context.clock;
    config.has_peers = context.has_peers;
    auto strategy = std::make_unique<LocalStrategy>(context.weights, std::move(config),
                                                    context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

const RegisterStrategy local(
    {.part = {.name = "local",
              .parameters = {{.name = "fetch", .least = 0, .most = 1e9, .whole = true},
                             {.name = "push", .least = 0, .most = 1e9, .whole = true}}},
     .check = CheckLocal,
     .make = MakeLocal,
     .links_devices = false,
     .rule_with_state = [](const caffe::SolverParameter& param) {
       return RuleWithStateOf(MergerConfigOf(param.strategy()));
     }});

}  // namespace
}  // namespace millrace::inline strategy
