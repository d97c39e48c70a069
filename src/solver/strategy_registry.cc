#include "solver/strategy_registry.h"

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

StrategyMaker MakeStrategies(StrategyContext context) {
  const SolverConfig& config = *context.config;
  const caffe::StrategyParameter& strategy = config.param.strategy();
  try {
    auto [entry, values] = ChooseStrategy(strategy);
    context.parameters = std::move(values);
    return entry.make(context);
  } catch (const FieldError& error) {
    throw Located(config.source, error);
  }
}

}  // namespace millrace::inline solver
