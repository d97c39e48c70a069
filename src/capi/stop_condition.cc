// Stop conditions as tables of functions.
#include "millrace/stop_condition.h"

#include "capi/tables.h"

namespace millrace::inline capi {
namespace {

struct StopTable {
  StopTable(const char* function, const millrace_stop_type* given)
      : type(Taken(function, "millrace_stop_type", given)), name(CheckedName(function, type.name)) {
    if (type.after_iteration == nullptr && type.after_test == nullptr) {
      throw Error(function, ": after_iteration and after_test are NULL, expected a function");
    }
  }
  const millrace_stop_type type;
  const std::string name;
};

class TableStopCondition : public StopCondition {
 public:
  TableStopCondition(std::shared_ptr<const StopTable> table, const PartValues& values)
      : table_(std::move(table)) {
    const millrace_values wrapped{values};
    state_ = MakeState("stop condition " + table_->name, table_->type.create, table_->type.destroy,
                       table_->type.user, &wrapped);
  }

  std::string AfterIteration(const RunProgress& run) override {
    if (table_->type.after_iteration == nullptr) return "";
    millrace_progress progress{};
    progress.size = sizeof(progress);
    progress.iterations = run.iterations;
    progress.seconds = run.seconds;
    const char* why = nullptr;
    Callback("stop condition " + table_->name + ": after_iteration", table_->type.after_iteration,
             state_.get(), &progress, &why);
    return TextOrNone(why);
  }

  std::string AfterTest(const TestedOutputs& test) override {
    if (table_->type.after_test == nullptr) return "";
    millrace_tested tested{};
    tested.size = sizeof(tested);
    tested.iteration = test.iteration;
    tested.net = test.net;
    tested.outputs = test.outputs.data();
    tested.count = test.outputs.size();
    const char* why = nullptr;
    Callback("stop condition " + table_->name + ": after_test", table_->type.after_test,
             state_.get(), &tested, &why);
    return TextOrNone(why);
  }

 private:
  const std::shared_ptr<const StopTable> table_;
  State state_{nullptr, &DestroyNothing};
};

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_stop(const millrace_stop_type* type) {
  const char* const function = __func__;
  return millrace::Call(function, [&] {
    const auto table = std::make_shared<const millrace::StopTable>(function, type);
    millrace::RegisterStopCondition(
        {.name = table->name,
         .parameters = millrace::PartParametersOf(function, table->type.parameters)},
        [table](const millrace::PartValues& values) {
          return std::make_unique<millrace::TableStopCondition>(table, values);
        },
        table->type.needs_tests != 0);
  });
}
