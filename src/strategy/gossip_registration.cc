// strategy { type: "gossip" }: solvers that average their weights in pairs (docs/learning.md).
#include <memory>
#include <string>

#include "proto/part_values.h"
#include "solver/strategy_registry.h"
#include "strategy/pair_averaging.h"

namespace millrace::inline strategy {
namespace {

void Check(const caffe::SolverParameter& param) {
  const caffe::StrategyParameter& strategy = param.strategy();
  SyncConditions conditions(strategy);
  if (!strategy.has_merge_rule()) return;
  throw FieldError("strategy.merge_rule", "strategy gossip averages pairs, expected none");
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
  const auto team = std::make_shared<PairTeam>(context.weights, context.solvers,
                                               context.config->seed, context.state);
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
                               .check = Check,
                               .make = MakeGossip,
                               .links_devices = false,
                               .rule_with_state = [](const caffe::SolverParameter& /*param*/) {
                                 return std::string("gossip");
                               }});

}  // namespace
}  // namespace millrace::inline strategy
