#include "solver/strategy_registry.h"

#include <glog/logging.h>

#include <string>
#include <utility>

#include "proto/part_values.h"

namespace millrace::inline solver {

StrategyRegistry& Strategies() {
  static StrategyRegistry registry("strategy");
  return registry;
}

StrategyRegistry::Choice ChooseStrategy(const caffe::StrategyParameter& strategy) {
  return Strategies().Choose("strategy", strategy.type(), ValuesOf(strategy.param()));
}

void CheckStrategy(const caffe::SolverParameter& param) {
  const caffe::StrategyParameter& strategy = param.strategy();
  const StrategyEntry& entry = ChooseStrategy(strategy).entry;
  if (entry.check) return entry.check(param);
  if (strategy.sync_condition_size() > 0) {
    throw FieldError("strategy.sync_condition", "strategy ", strategy.type(),
                     " has no sync conditions");
  }
  if (strategy.has_merge_rule()) {
    throw FieldError("strategy.merge_rule", "strategy ", strategy.type(), " has no merge rule");
  }
}

bool LinksDevices(const caffe::SolverParameter& param) {
  return Strategies().Find("strategy", param.strategy().type()).links_devices;
}

std::string RuleWithStateOf(const caffe::SolverParameter& param) {
  const StrategyEntry& entry = ChooseStrategy(param.strategy()).entry;
  return entry.rule_with_state ? entry.rule_with_state(param) : "";
}

int SolversWithHistory(const caffe::SolverParameter& param, int solvers) {
  const bool together = Strategies().Find("strategy", param.strategy().type()).synchronous;
  return together && !param.strategy().has_merge_rule() ? 1 : solvers;
}

RunState StartRunState(const caffe::SolverParameter& param, int solvers, int64_t weights) {
  RunState run;
  const std::string rule = RuleWithStateOf(param);
  if (rule.empty()) return run;
  run.set_rule(rule);
  run.set_solvers(solvers);
  run.set_weights(weights);
  return run;
}

StrategyMaker MakeStrategies(StrategyContext context) {
  const SolverConfig& config = *context.config;
  const caffe::StrategyParameter& strategy = config.param.strategy();
  try {
    auto [entry, values] = ChooseStrategy(strategy);
    context.parameters = std::move(values);
    const std::string rule = RuleWithStateOf(config.param);
    if (context.state.run != nullptr) {
      CheckRunState(context.state, rule, context.solvers, context.weights->size());
    } else if (!context.state.path.empty() && !rule.empty()) {
      LOG(INFO) << context.state.path << " holds no state of the rule " << rule
                << ", which begins anew";
    }
    return entry.make(context);
  } catch (const FieldError& error) {
    throw Located(config.source, error);
  }
}

}  // namespace millrace::inline solver
