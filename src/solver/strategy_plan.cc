#include "solver/strategy_plan.h"

#include <glog/logging.h>

#include "proto/part_values.h"

namespace millrace::inline solver {
namespace {

PartRegistry<StrategyEntry>& Strategies() {
  static PartRegistry<StrategyEntry> registry("strategy");
  return registry;
}

}  // namespace

RegisterStrategy::RegisterStrategy(StrategyEntry entry) { Strategies().Register(std::move(entry)); }

std::shared_ptr<const StrategyPlan> PlanStrategy(const caffe::SolverParameter& param) {
  const caffe::StrategyParameter& strategy = param.strategy();
  const auto [entry, values] =
      Strategies().Choose("strategy", strategy.type(), ValuesOf(strategy.param()));
  return entry.plan(param, values);
}

int StrategyPlan::SolversWithHistory(int solvers) const {
  return synchronous && !synchronous->merges_weights ? 1 : solvers;
}

RunState StrategyPlan::StartRunState(int solvers, int64_t weights) const {
  RunState run;
  if (rule_with_state.empty()) return run;
  run.set_rule(rule_with_state);
  run.set_solvers(solvers);
  run.set_weights(weights);
  return run;
}

StrategyMaker MakeStrategies(const StrategyContext& context) {
  const StrategyPlan& plan = *context.config->strategy;
  try {
    const std::string& rule = plan.rule_with_state;
    if (context.state.run != nullptr) {
      CheckRunState(context.state, rule, context.solvers, context.weights->size());
    } else if (!context.state.path.empty() && !rule.empty()) {
      LOG(INFO) << context.state.path << " holds no state of the rule " << rule
                << ", which begins anew";
    }
    return plan.Make(context);
  } catch (const FieldError& error) {
    throw Located(context.config->source, error);
  }
}

}  // namespace millrace::inline solver
