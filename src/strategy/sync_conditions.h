// The sync conditions of this program (millrace/sync_condition.h), by name, and those of a solver.
#ifndef MILLRACE_STRATEGY_SYNC_CONDITIONS_H_
#define MILLRACE_STRATEGY_SYNC_CONDITIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/part.h"
#include "millrace/sync_condition.h"
#include "proto/caffe.pb.h"
#include "solver/run_state.h"

namespace millrace::inline strategy {

struct SyncConditionEntry {
  PartDescriptor part;
  SyncConditionFactory make;
};

using SyncConditionRegistry = PartRegistry<SyncConditionEntry>;
SyncConditionRegistry& SyncConditionsByName();

// Several conditions: any of them fires.
class SyncConditions {
 public:
  void Add(std::unique_ptr<SyncCondition> condition) {
    conditions_.push_back(std::move(condition));
  }
  bool empty() const { return conditions_.empty(); }
  bool ReadsWeights() const;
  // Asks every condition, so that each sees every state.
  bool Fires(const SyncState& state) const;
  void Merging(const SyncState& state) const;
  // Whether snapshots hold anything of them.
  bool have_state() const;
  void Export(SolverPart* part) const;
  // Throws Error if a condition has no or another state in `stored`.
  void Restore(const StateReader& stored) const;

 private:
  std::vector<std::unique_ptr<SyncCondition>> conditions_;
};

// The conditions that a solver file names. They learn from what one solver does, so each solver
// makes its own. Thread-safe.
class SyncConditionList {
 public:
  // Throws FieldError, relative to the solver file, if one is unknown or its parameters are wrong.
  explicit SyncConditionList(const caffe::StrategyParameter& strategy);

  bool empty() const { return chosen_.empty(); }
  SyncConditions Make() const;

 private:
  std::vector<SyncConditionRegistry::Choice> chosen_;
};

}  // namespace millrace::inline strategy

#endif  // MILLRACE_STRATEGY_SYNC_CONDITIONS_H_
