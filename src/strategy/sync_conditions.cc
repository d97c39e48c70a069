#include "strategy/sync_conditions.h"

#include <algorithm>
#include <utility>

#include "proto/part_values.h"

namespace millrace {

RegisterSyncCondition::RegisterSyncCondition(PartDescriptor descriptor, SyncConditionFactory make) {
  SyncConditionsByName().Register({std::move(descriptor), std::move(make)});
}

}  // namespace millrace
namespace millrace::inline strategy {

SyncConditionRegistry& SyncConditionsByName() {
  static SyncConditionRegistry registry("sync condition");
  return registry;
}

SyncConditionList::SyncConditionList(const caffe::StrategyParameter& strategy) {
  const SyncConditionRegistry& registry = SyncConditionsByName();
  for (int i = 0; i < strategy.sync_condition_size(); ++i) {
    const caffe::PartParameter& each = strategy.sync_condition(i);
    const std::string field = StrCat("strategy.sync_condition[", i, "]");
    chosen_.push_back(registry.Choose(field, each.type(), ValuesOf(each.param())));
    try {
      chosen_.back().entry.make(chosen_.back().values);
    } catch (const Error& error) {
      throw FieldError(field, error.what());
    }
  }
}

SyncConditions SyncConditionList::Make() const {
  SyncConditions made;
  for (const auto& [entry, values] : chosen_) made.Add(entry.make(values));
  return made;
}

bool SyncConditions::ReadsWeights() const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [](const auto& each) { return each->ReadsWeights(); });
}

bool SyncConditions::Fires(const SyncState& state) const {
  bool any = false;
  for (const auto& each : conditions_) any |= each->Fires(state);
  return any;
}

namespace {

std::string FieldOf(size_t index) { return StrCat("sync_condition[", index, "]"); }

}  // namespace

bool SyncConditions::have_state() const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [](const auto& each) { return !each->State().empty(); });
}

void SyncConditions::Export(SolverPart* part) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const std::vector<double> state = conditions_[i]->State();
    if (!state.empty()) AddNumbers(FieldOf(i), state, part);
  }
}

void SyncConditions::Restore(const StateReader& stored) const {
  for (size_t i = 0; i < conditions_.size(); ++i) {
    const size_t numbers = conditions_[i]->State().size();
    if (numbers > 0) conditions_[i]->Restore(stored.Numbers(FieldOf(i), numbers));
  }
}

void SyncConditions::Merging(const SyncState& state) const {
  for (const auto& each : conditions_) each->Merging(state);
}

}  // namespace millrace::inline strategy
