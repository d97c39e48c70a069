// Merge rules as tables of functions.
#include "millrace/merge_rule.h"

#include "capi/tables.h"

namespace millrace::inline capi {
namespace {

struct MergeTable {
  MergeTable(const char* function, const millrace_merge_type* given)
      : type(Taken(function, "millrace_merge_type", given)),
        name(CheckedName(function, type.name)) {
    CheckFunction(function, "select", type.select);
    CheckFunction(function, "residual", type.residual);
    CheckFunction(function, "apply", type.apply);
    for (const PartParameter& each : PartParametersOf(function, type.parameters)) {
      if (each.whole || each.required) {
        throw Error(function, ": parameter ", each.name,
                    ": whole or required is set, expected neither in a merge rule");
      }
      parameters.push_back(each);
    }
  }
  const millrace_merge_type type;
  const std::string name;
  std::vector<PartParameter> parameters;
};

class TableMergeRule : public MergeRule {
 public:
  TableMergeRule(std::shared_ptr<const MergeTable> table, const RuleParameters& values)
      : table_(std::move(table)) {
    const millrace_values wrapped{values};
    state_ = MakeState("merge rule " + table_->name, table_->type.create, table_->type.destroy,
                       table_->type.user, &wrapped);
  }

  void Select(std::span<const float> u, std::span<float> selected) const override {
    table_->type.select(state_.get(), u.data(), selected.data(), u.size());
  }
  void Residual(std::span<const float> u, std::span<const float> d,
                std::span<float> rest) const override {
    table_->type.residual(state_.get(), u.data(), d.data(), rest.data(), u.size());
  }
  void Apply(std::span<float> w, std::span<const float> d, std::span<float> state,
             uint32_t staleness) const override {
    table_->type.apply(state_.get(), w.data(), d.data(), state.data(), w.size(), staleness);
  }

 private:
  const std::shared_ptr<const MergeTable> table_;
  State state_{nullptr, &DestroyNothing};
};

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_merge(const millrace_merge_type* type) {
  const char* const function = __func__;
  return millrace::Call(function, [&] {
    const auto table = std::make_shared<const millrace::MergeTable>(function, type);
    millrace::MergeRuleDescriptor descriptor;
    descriptor.name = table->name;
    descriptor.parameters = table->parameters;
    descriptor.state_floats = table->type.state_floats;
    descriptor.zero_changes_nothing = table->type.zero_changes_nothing != 0;
    if (table->type.rest_distance != nullptr) {
      descriptor.rest_distance = [table](const millrace::RuleParameters& values) {
        const millrace_values wrapped{values};
        return table->type.rest_distance(table->type.user, &wrapped);
      };
    }
    millrace::RegisterMergeRule(descriptor, [table](const millrace::RuleParameters& values) {
      return std::make_unique<millrace::TableMergeRule>(table, values);
    });
  });
}
