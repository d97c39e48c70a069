// Sync conditions as tables of functions.
#include "millrace/sync_condition.h"

#include "capi/tables.h"

namespace millrace::inline capi {
namespace {

constexpr size_t kMaxSavedNumbers = 1 << 20;

struct SyncTable {
  SyncTable(const char* function, const millrace_sync_type* given)
      : type(Taken(function, "millrace_sync_type", given)), name(CheckedName(function, type.name)) {
    CheckFunction(function, "fires", type.fires);
    if (type.saved_numbers > kMaxSavedNumbers) {
      throw Error(function, ": saved_numbers is ", type.saved_numbers, ", expected at most ",
                  kMaxSavedNumbers);
    }
    if (type.saved_numbers == 0) return;
    CheckFunction(function, "save", type.save);
    CheckFunction(function, "restore", type.restore);
  }
  const millrace_sync_type type;
  const std::string name;
};

class TableSyncCondition : public SyncCondition {
 public:
  TableSyncCondition(std::shared_ptr<const SyncTable> table, const PartValues& values)
      : table_(std::move(table)), type_(table_->type) {
    const millrace_values wrapped{values};
    state_ = MakeState("sync condition " + table_->name, type_.create, type_.destroy, type_.user,
                       &wrapped);
  }

  bool ReadsWeights() const override { return type_.ignores_weights == 0; }
  bool Fires(const SyncState& state) override {
    const millrace_sync_state given = Converted(state);
    return type_.fires(state_.get(), &given) != 0;
  }
  void Merging(const SyncState& state) override {
    if (type_.merging == nullptr) return;
    const millrace_sync_state given = Converted(state);
    type_.merging(state_.get(), &given);
  }
  std::vector<double> State() const override {
    std::vector<double> numbers(type_.saved_numbers);
    if (!numbers.empty()) type_.save(state_.get(), numbers.data());
    return numbers;
  }
  void Restore(std::span<const double> state) override {
    if (type_.saved_numbers != 0 && state.size() == type_.saved_numbers) {
      type_.restore(state_.get(), state.data());
    }
  }

 private:
  millrace_sync_state Converted(const SyncState& state) const {
    millrace_sync_state given{};
    given.size = sizeof(given);
    given.iterations = state.iterations;
    given.shared_iterations = state.shared_iterations;
    given.seconds = state.seconds;
    if (!ReadsWeights()) return given;
    given.weights = state.weights.data();
    given.base = state.base.data();
    given.count = state.weights.size();
    return given;
  }

  const std::shared_ptr<const SyncTable> table_;
  const millrace_sync_type& type_;
  capi::State state_{nullptr, &DestroyNothing};
};

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_sync(const millrace_sync_type* type) {
  const char* const function = __func__;
  return millrace::Call(function, [&] {
    const auto table = std::make_shared<const millrace::SyncTable>(function, type);
    millrace::RegisterSyncCondition(
        {.name = table->name,
         .parameters = millrace::PartParametersOf(function, table->type.parameters)},
        [table](const millrace::PartValues& values) {
          return std::make_unique<millrace::TableSyncCondition>(table, values);
        });
  });
}
