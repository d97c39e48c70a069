// Update rules as tables of functions.
#include "millrace/update_rule.h"

#include <google/protobuf/descriptor.h>

#include <set>

#include "capi/tables.h"
#include "capi/texts.h"

using millrace::Call;
using millrace::Given;
using millrace::GivenText;

// A rule that is being created.
struct millrace_rule {
  virtual ~millrace_rule() = default;
  virtual double Number(const std::string& key, double otherwise) const = 0;
  virtual std::string Text(const std::string& key, const std::string& otherwise) const = 0;
  virtual const millrace::caffe::SolverParameter& Settings() const = 0;
  millrace::Texts texts;
};

namespace millrace::inline capi {
namespace {

constexpr int kMaxSlots = 16;

struct RuleTable {
  RuleTable(const char* function, const millrace_rule_type* given)
      : type(Taken(function, "millrace_rule_type", given)),
        name(CheckedName(function, type.name)),
        parameters(ListOf(type.parameters)) {
    CheckFunction(function, "apply", type.apply);
    if (type.slots < 0 || type.slots > kMaxSlots) {
      throw Error(function, ": slots is ", type.slots, ", expected 0 to ", kMaxSlots);
    }
  }
  const millrace_rule_type type;
  const std::string name;
  const std::vector<std::string> parameters;
};

class TableRule : public UpdateRule, private millrace_rule {
 public:
  TableRule(std::shared_ptr<const RuleTable> table, const UpdateContext& context)
      : UpdateRule(context, table->type.slots, table->type.counts != 0), table_(std::move(table)) {
    state_ = MakeState("update rule " + table_->name, table_->type.create, table_->type.destroy,
                       static_cast<millrace_rule*>(this), table_->type.user);
  }

  std::set<std::string> custom_params() const override {
    return {table_->parameters.begin(), table_->parameters.end()};
  }

  void Apply(float rate, float look_ahead, const float* gradients, float* weights) override {
    millrace_update update{};
    update.size = sizeof(update);
    update.gradient_scale = GradientScale(gradients);
    update.together = look_ahead > 0;
    if (table_->type.counts != 0) update.updates = CountUpdate();
    float* history_of[kMaxSlots] = {};
    update.history = history_of;
    int status = MILLRACE_OK;
    SetLastError("");
    for (size_t p = 0; p < params().size() && status == MILLRACE_OK; ++p) {
      const UpdateParam& param = params()[p];
      if (param.lr_mult == 0) continue;
      update.parameter = p;
      update.rate = rate * param.lr_mult;
      update.decay = this->param().weight_decay() * param.decay_mult;
      ForBlocks(param, weights, [&](int64_t begin, int64_t count) {
        if (status != MILLRACE_OK) return;
        update.gradients = gradients + begin;
        update.weights = weights + begin;
        update.count = static_cast<size_t>(count);
        for (int slot = 0; slot < slots(); ++slot) history_of[slot] = history(slot) + begin;
        status = table_->type.apply(state_.get(), &update);
      });
    }
    if (status != MILLRACE_OK) ThrowReported("update rule " + table_->name + ": apply");
  }

 private:
  double Number(const std::string& key, double otherwise) const override {
    ExpectKey("update rule ", *table_, key);
    return CustomNumber(key, otherwise);
  }
  std::string Text(const std::string& key, const std::string& otherwise) const override {
    ExpectKey("update rule ", *table_, key);
    return CustomText(key, otherwise);
  }
  const caffe::SolverParameter& Settings() const override { return param(); }

  const std::shared_ptr<const RuleTable> table_;
  State state_{nullptr, &DestroyNothing};
};

// A field of a message that is one number.
double NumberIn(const google::protobuf::Message& message,
                const google::protobuf::FieldDescriptor& field) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case Field::CPPTYPE_INT64:
      return static_cast<double>(reflection.GetInt64(message, &field));
    case Field::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case Field::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(message, &field));
    case Field::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, &field);
    case Field::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case Field::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? 1 : 0;
    default:
      throw Error("field '", field.name(), "' is no number");
  }
}

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_rule(const millrace_rule_type* type) {
  const char* const function = __func__;
  return Call(function, [&] {
    const auto table = std::make_shared<const millrace::RuleTable>(function, type);
    millrace::UpdateRuleRegistry::Get().Register(
        table->name, millrace::DeviceType::kCpu,
        [table](const millrace::UpdateContext& context) -> std::unique_ptr<millrace::UpdateRule> {
          return std::make_unique<millrace::TableRule>(table, context);
        });
  });
}

int millrace_rule_number(millrace_rule* rule, const char* key, double otherwise, double* number) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "number", number);
    *number = Given(function, "rule", rule).Number(GivenText(function, "key", key), otherwise);
  });
}

const char* millrace_rule_text(millrace_rule* rule, const char* key, const char* otherwise) {
  const char* const function = __func__;
  return millrace::ValueOf(function, static_cast<const char*>(nullptr), [&] {
    return Given(function, "rule", rule)
        .texts.Keep(rule->Text(GivenText(function, "key", key), millrace::TextOrNone(otherwise)));
  });
}

int millrace_rule_field(millrace_rule* rule, const char* name, double* number, int* is_set) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "number", number);
    const std::string text = GivenText(function, "field", name);
    const google::protobuf::Message& settings = Given(function, "rule", rule).Settings();
    const auto* const field = settings.GetDescriptor()->FindFieldByName(text);
    if (field == nullptr || field->is_repeated()) {
      throw millrace::Error(function, ": '", text, "' is no single field of a solver file");
    }
    *number = millrace::NumberIn(settings, *field);
    if (is_set != nullptr) *is_set = settings.GetReflection()->HasField(settings, field);
  });
}
