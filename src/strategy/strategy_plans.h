// What a solver file asks of each strategy (docs/learning.md). The constructors throw FieldError
// for fields and parameters that do not fit; `values` are the parameters of the strategy.
#ifndef MILLRACE_STRATEGY_STRATEGY_PLANS_H_
#define MILLRACE_STRATEGY_STRATEGY_PLANS_H_

#include <cstdint>
#include <optional>

#include "solver/strategy_plan.h"
#include "strategy/gossip_rules.h"
#include "strategy/local_merger.h"
#include "strategy/sync_conditions.h"
#include "strategy/synchronous_merge.h"

namespace millrace::inline strategy {

struct HogwildPlan : StrategyPlan {
  HogwildPlan(const caffe::SolverParameter& param, const PartValues& values);
  StrategyMaker Make(const StrategyContext& context) const override;

  float delay_compensation = 0;  // factor of the correction (delay_compensation.h); 0: none
  int passes = 1;                // iter_size
};

struct LocalPlan : StrategyPlan {
  LocalPlan(const caffe::SolverParameter& param, const PartValues& values);
  StrategyMaker Make(const StrategyContext& context) const override;
  // The settings of one solver, with conditions of its own.
  MergerConfig Merger() const { return {merge, conditions.Make()}; }

  MergeSettings merge;
  SyncConditionList conditions;
};

struct AllreducePlan : StrategyPlan {
  AllreducePlan(const caffe::SolverParameter& param, const PartValues& values);
  StrategyMaker Make(const StrategyContext& context) const override;
  // The merge rule for so many solvers of the run; none: they sum gradients. Throws FieldError.
  std::optional<SynchronousMergeConfig> MergeOf(int solvers) const;

  bool averages = true;  // gradients; else their sum
  int64_t bucket = 0;    // floats of gradients that are summed at a time
  std::optional<SynchronousMergeConfig> merge;
};

struct GossipPlan : StrategyPlan {
  GossipPlan(const caffe::SolverParameter& param, const PartValues& values);
  StrategyMaker Make(const StrategyContext& context) const override;

  std::optional<NoLoCo> rule;  // none: solvers take the mean
  SyncConditionList conditions;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_STRATEGY_PLANS_H_
