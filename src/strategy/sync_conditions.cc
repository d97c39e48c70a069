#include "strategy/sync_conditions.h"

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

SyncConditions::SyncConditions(const caffe::StrategyParameter& strategy) {
  const SyncConditionRegistry& registry = SyncConditionsByName();
  for (int i = 0; i < strategy.sync_condition_size(); ++i) {
    const caffe::PartParameter& each = strategy.sync_condition(i);
    const std::string field = StrCat("strategy.sync_condition[", i, "]");
    const auto [entry, values] = registry.Choose(field, each.type(), ValuesOf(each.param()));
    try {
      Add(entry.make(values));
    } catch (const Error& error) {
      throw FieldError(field, error.what());
    }
  }
}

bool SyncConditions::Fires(const SyncState& state) const {
  bool any = false;
  for (const auto& each : conditions_) any |= each->Fires(state);
  return any;
}

void SyncConditions::Merging(const SyncState& state) const {
  for (const auto& each : conditions_) each->Merging(state);
}

}  // namespace millrace::inline strategy
