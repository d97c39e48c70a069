// Samplers as tables of functions.
#include "millrace/sampler.h"

#include "capi/tables.h"

namespace millrace::inline capi {
namespace {

struct SamplerTable {
  SamplerTable(const char* function, const millrace_sampler_type* given)
      : type(Taken(function, "millrace_sampler_type", given)),
        name(CheckedName(function, type.name)) {
    CheckFunction(function, "record", type.record);
  }
  const millrace_sampler_type type;
  const std::string name;
};

class TableSampler : public Sampler {
 public:
  TableSampler(std::shared_ptr<const SamplerTable> table, const SampledData& data,
               const PartValues& values)
      : table_(std::move(table)), total_(data.total) {
    millrace_sampled_data given{};
    given.size = sizeof(given);
    given.records = data.total;
    given.seed = data.seed;
    given.stream = data.stream;
    given.labels = data.labels.empty() ? nullptr : data.labels.data();
    const millrace_values wrapped{values};
    state_ = MakeState("sampler " + table_->name, table_->type.create, table_->type.destroy,
                       table_->type.user, &wrapped, &given);
  }

  uint64_t Record(uint64_t epoch, uint64_t number) const override {
    return table_->type.record(state_.get(), total_, epoch, number) % total_;
  }

 private:
  const std::shared_ptr<const SamplerTable> table_;
  const uint64_t total_;
  State state_{nullptr, &DestroyNothing};
};

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_sampler(const millrace_sampler_type* type) {
  const char* const function = __func__;
  return millrace::Call(function, [&] {
    const auto table = std::make_shared<const millrace::SamplerTable>(function, type);
    millrace::RegisterSampler(
        {.name = table->name,
         .parameters = millrace::PartParametersOf(function, table->type.parameters)},
        [table](const millrace::SampledData& data, const millrace::PartValues& values) {
          return std::make_shared<millrace::TableSampler>(table, data, values);
        },
        table->type.needs_labels != 0);
  });
}
