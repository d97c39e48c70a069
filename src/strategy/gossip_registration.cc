// strategy { type: "gossip" }: solvers that average their weights in pairs (docs/learning.md).
#include <memory>
#include <optional>
#include <string>

#include "proto/part_values.h"
#include "solver/strategy_registry.h"
#include "strategy/noloco.h"
#include "strategy/pair_averaging.h"

namespace millrace::inline strategy {
namespace {

struct GossipRule {
  PartDescriptor part;
};

const PartRegistry<GossipRule>& GossipRules() {
  static const PartRegistry<GossipRule> rules = [] {
    PartRegistry<GossipRule> made("merge rule of the strategy gossip");
    made.Register(
        {{.name = "noloco",
          .parameters = {{.name = "momentum", .default_value = 0.5, .least = 0, .most = 0.99},
                         {.name = "rate", .default_value = 0.7, .least = 0, .most = 2},
                         {.name = "pull", .default_value = 1, .least = 0.01, .most = 2}}}});
    return made;
  }();
  return rules;
}

}  // namespace

std::optional<NoLoCo> NoLoCoOf(const caffe::StrategyParameter& strategy) {
  if (!strategy.has_merge_rule()) return std::nullopt;
  const caffe::PartParameter& rule = strategy.merge_rule();
  const auto [entry, values] =
      GossipRules().Choose("strategy.merge_rule", rule.type(), ValuesOf(rule.param()));
  const auto value = [&, &of = values](const char* name) {
    return static_cast<float>(of.at(name));
  };
  return NoLoCo{value("momentum"), value("rate"), value("pull")};
}

namespace {

void CheckGossip(const caffe::SolverParameter& param) {
  SyncConditions conditions(param.strategy());
  NoLoCoOf(param.strategy());
}

StrategyMaker MakeGossip(const StrategyContext& context) {
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
  const auto team =
      std::make_shared<PairTeam>(context.weights, context.solvers, context.config->seed,
                                 NoLoCoOf(context.config->param.strategy()), context.state);
  return [context, team](int index) {
    // Conditions belong to the thread of their solver.
    auto strategy = std::make_unique<PairAveraging>(
        team.get(), index, SyncConditions(context.config->param.strategy()), context.clock,
        context.ReplicaOf(index));
    if (context.state.run != nullptr) strategy->RestoreState(context.state.OfSolver(index));
    return strategy;
  };
}

const RegisterStrategy gossip({.part = {.name = "gossip"},
                               .check = CheckGossip,
                               .make = MakeGossip,
                               .links_devices = false,
                               .rule_with_state = [](const caffe::SolverParameter& param) {
                                 const bool has_rule = param.strategy().has_merge_rule();
                                 return std::string(has_rule ? "gossip noloco" : "gossip");
                               }});

}  // namespace
}  // namespace millrace::inline strategy
