// strategy { type: "gossip" }: solvers that average their weights in pairs (docs/learning.md).
#include <memory>
#include <optional>
#include <string>

#include "proto/part_values.h"
#include "strategy/pair_averaging.h"
#include "strategy/strategy_plans.h"

namespace millrace::inline strategy {
namespace {

struct GossipRule {
  PartDescriptor part;
};

const PartRegistry<GossipRule>& GossipRules() {
  static const PartRegistry<GossipRule> rules(
      "merge rule of the strategy gossip",
      {{{.name = "noloco",
         .parameters = {{.name = "momentum", .default_value = 0.5, .least = 0, .most = 0.99},
                        {.name = "rate", .default_value = 0.7, .least = 0, .most = 2},
                        {.name = "pull", .default_value = 1, .least = 0.01, .most = 2}}}}});
  return rules;
}

// None: solvers take the mean. Throws FieldError.
std::optional<NoLoCo> RuleOf(const caffe::StrategyParameter& strategy) {
  if (!strategy.has_merge_rule()) return std::nullopt;
  const caffe::PartParameter& rule = strategy.merge_rule();
  const auto [entry, values] =
      GossipRules().Choose("strategy.merge_rule", rule.type(), ValuesOf(rule.param()));
  const auto value = [&, &of = values](const char* name) {
    return static_cast<float>(of.at(name));
  };
  return NoLoCo{value("momentum"), value("rate"), value("pull")};
}

}  // namespace

GossipPlan::GossipPlan(const caffe::SolverParameter& param, const PartValues& /*values*/)
    : rule(RuleOf(param.strategy())), conditions(param.strategy()) {
  rule_with_state = rule ? "gossip noloco" : "gossip";
}

StrategyMaker GossipPlan::Make(const StrategyContext& context) const {
  const auto refuse = [](const char* what) {
    throw FieldError("strategy.type",
                     "is gossip, whose solvers average their weights in pairs in "
                     "the memory of one process, expected no ",
                     what);
  };
  if (context.in_cluster) refuse("topology");
  if (context.weights_are_shared) refuse("weights that processes share (--shm)");
  if (context.solvers > PairTeam::kMaxSolvers) {
    throw FieldError("strategy.type", "is gossip, which has at most ", PairTeam::kMaxSolvers,
                     " solvers, ", context.solvers, " given");
  }
  const auto team = std::make_shared<PairTeam>(context.weights, context.solvers,
                                               context.config->seed, rule, context.state);
  return [this, context, team](int index) {
    auto strategy = std::make_unique<PairAveraging>(team.get(), index, conditions.Make(),
                                                    context.clock, context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

namespace {

const RegisterStrategy gossip({{.name = "gossip"}, MakePlan<GossipPlan>});

}  // namespace
}  // namespace millrace::inline strategy
