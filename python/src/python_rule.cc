// Update rules in Python. A rule changes copies of the weights, without locks; the change is then
// added to them, as that of a solver with weights of its own is.
#include <google/protobuf/descriptor.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "millrace/update_rule.h"
#include "owner.h"
#include "python_call.h"

namespace millrace::python {
namespace {

constexpr int kMaxSlots = 16;

// One parameter in one iteration, for UpdateRule.apply.
struct PyUpdate {
  size_t parameter = 0;
  std::string name;
  double rate = 0, decay = 0;
  bool together = false;
  int64_t updates = 0;
  py::array_t<float> gradients, weights;
  py::tuple history;
};

// The fields of a solver file that are set and have one value.
py::dict SettingsOf(const caffe::SolverParameter& param) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *param.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(param, &fields);
  py::dict settings;
  for (const Field* const field : fields) {
    if (field->is_repeated()) continue;
    const py::str name(field->name());
    switch (field->cpp_type()) {
      case Field::CPPTYPE_INT32:
        settings[name] = reflection.GetInt32(param, field);
        break;
      case Field::CPPTYPE_INT64:
        settings[name] = reflection.GetInt64(param, field);
        break;
      case Field::CPPTYPE_UINT32:
        settings[name] = reflection.GetUInt32(param, field);
        break;
      case Field::CPPTYPE_UINT64:
        settings[name] = reflection.GetUInt64(param, field);
        break;
      case Field::CPPTYPE_FLOAT:
        settings[name] = reflection.GetFloat(param, field);
        break;
      case Field::CPPTYPE_DOUBLE:
        settings[name] = reflection.GetDouble(param, field);
        break;
      case Field::CPPTYPE_BOOL:
        settings[name] = reflection.GetBool(param, field);
        break;
      case Field::CPPTYPE_ENUM:
        settings[name] = reflection.GetEnum(param, field)->name();
        break;
      case Field::CPPTYPE_STRING:
        settings[name] = reflection.GetString(param, field);
        break;
      case Field::CPPTYPE_MESSAGE:
        break;
    }
  }
  return settings;
}

// What a class in Python says of a rule.
struct RuleTraits {
  std::string name;
  int slots = 0;
  bool counts = false;
  std::vector<PartParameter> numbers;
  std::vector<std::pair<std::string, std::string>> texts;  // with the default
};

class PythonRule : public UpdateRule {
 public:
  PythonRule(const RegisteredClass& registered, std::shared_ptr<const RuleTraits> traits,
             const UpdateContext& context)
      : UpdateRule(context, traits->slots, traits->counts), traits_(std::move(traits)) {
    std::vector<std::pair<std::string, double>> numbers;
    for (const PartParameter& each : traits_->numbers) numbers.emplace_back(each.name, Value(each));
    CallFactory([&] {
      py::dict arguments = ArgumentsOf(traits_->numbers, {numbers.begin(), numbers.end()});
      for (const auto& [key, otherwise] : traits_->texts) {
        arguments[py::str(key)] = CustomText(key, otherwise);
      }
      py::object rule = registered.type(SettingsOf(param()), **arguments);
      apply_.emplace(rule.attr("apply"));
      py::list updates;
      for (size_t i = 0; i < params().size(); ++i) updates.append(NewUpdate(i));
      updates_.emplace(std::move(updates));
    });
  }

  std::set<std::string> custom_params() const override {
    std::set<std::string> keys;
    for (const PartParameter& each : traits_->numbers) keys.insert(each.name);
    for (const auto& [key, otherwise] : traits_->texts) keys.insert(key);
    return keys;
  }

  void Apply(float rate, float look_ahead, const float* gradients, float* weights) override {
    const float scale = GradientScale(gradients);
    const int64_t updates = traits_->counts ? CountUpdate() : 0;
    for (size_t i = 0; i < params().size(); ++i) {
      const UpdateParam& each = params()[i];
      if (each.lr_mult == 0) continue;
      base_.resize(static_cast<size_t>(each.count));
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        std::copy_n(weights + begin, count, base_.data() + (begin - each.offset));
      });
      const float* const own = [&] {
        const PythonCall call;
        auto& update = py::cast<PyUpdate&>(updates_->get()[py::int_(i)]);
        update.rate = rate * each.lr_mult;
        update.decay = param().weight_decay() * each.decay_mult;
        update.together = look_ahead > 0;
        update.updates = updates;
        std::transform(gradients + each.offset, gradients + each.offset + each.count,
                       Values(update.gradients, each), [&](float g) { return scale * g; });
        std::copy(base_.begin(), base_.end(), Values(update.weights, each));
        for (int slot = 0; slot < slots(); ++slot) {
          std::copy_n(history(slot) + each.offset, each.count,
                      Values(HistoryOf(update, slot), each));
        }
        apply_->get()(updates_->get()[py::int_(i)]);
        for (int slot = 0; slot < slots(); ++slot) {
          std::copy_n(Values(HistoryOf(update, slot), each), each.count,
                      history(slot) + each.offset);
        }
        return Values(update.weights, each);  // which updates_ keeps
      }();
      ForBlocks(each, weights, [&](int64_t begin, int64_t count) {
        const float* const base = base_.data() + (begin - each.offset);
        const float* const changed = own + (begin - each.offset);
        float* const w = weights + begin;
        // Alone, the weights become those of the rule, bit by bit.
        for (int64_t k = 0; k < count; ++k) {
          w[k] = w[k] == base[k] ? changed[k] : w[k] + (changed[k] - base[k]);
        }
      });
    }
  }

 private:
  double Value(const PartParameter& parameter) const {
    const bool given = param().custom_param().count(parameter.name) != 0;
    if (parameter.required && !given) {
      throw FieldError("custom_param", "the update rule ", traits_->name, " needs the key ",
                       parameter.name);
    }
    if (!given) return parameter.default_value;
    const double value = CustomNumber(parameter.name, parameter.default_value);
    if (parameter.Accepts(value)) return value;
    throw FieldError("custom_param", parameter.name, " is ", value, ", expected a ",
                     parameter.whole ? "whole number" : "number", " from ", parameter.least, " to ",
                     parameter.most);
  }

  py::object NewUpdate(size_t index) const {
    const UpdateParam& each = params()[index];
    const std::vector<py::ssize_t> shape(each.shape.begin(), each.shape.end());
    PyUpdate update;
    update.parameter = index;
    update.name = each.name;
    update.gradients = py::array_t<float>(shape);
    update.weights = py::array_t<float>(shape);
    update.history = py::tuple(slots());
    for (int slot = 0; slot < slots(); ++slot) update.history[slot] = py::array_t<float>(shape);
    return py::cast(std::move(update));
  }
  static py::array_t<float> HistoryOf(const PyUpdate& update, int slot) {
    return py::cast<py::array_t<float>>(update.history[static_cast<size_t>(slot)]);
  }
  // The values of an array that the rule may have changed in any way. Throws Error for another
  // size.
  float* Values(py::array_t<float> array, const UpdateParam& of) const {
    if (array.size() == of.count) return array.mutable_data();
    throw Error("update rule ", traits_->name, ": an array of ", of.name, " has ", array.size(),
                " values, expected ", of.count);
  }

  const std::shared_ptr<const RuleTraits> traits_;
  std::optional<HeldObject> apply_, updates_;  // a method, a list of PyUpdate by parameter
  std::vector<float> base_;                    // the weights before the rule
};

void Register(const std::string& name, py::object type, int slots, bool counts,
              const GivenParameters& numbers,
              const std::vector<std::pair<std::string, std::string>>& texts) {
  if (slots < 0 || slots > kMaxSlots) {
    throw Error("update rule ", name, ": slots is ", slots, ", expected 0 to ", kMaxSlots);
  }
  const auto traits = std::make_shared<const RuleTraits>(
      RuleTraits{name, slots, counts, ParametersOf(numbers), texts});
  std::string signature = StrCat(slots, counts, SignatureOf(numbers));
  for (const auto& [key, otherwise] : texts) signature += StrCat(key, "=", otherwise, ";");
  RegisterClass("update rule", name, std::move(type), signature,
                [&](const RegisteredClass& registered) {
                  UpdateRuleRegistry::Get().Register(
                      name, DeviceType::kCpu, [&registered, traits](const UpdateContext& context) {
                        return std::make_unique<PythonRule>(registered, traits, context);
                      });
                });
}

}  // namespace

void BindPythonRule(py::module_* module) {
  py::class_<PyUpdate>(*module, "Update", "One parameter in one iteration, for UpdateRule.apply.")
      .def_readonly("parameter", &PyUpdate::parameter, "Its number, in the order of the net.")
      .def_readonly("name", &PyUpdate::name)
      .def_readonly("rate", &PyUpdate::rate, "The learning rate times lr_mult.")
      .def_readonly("decay", &PyUpdate::decay, "weight_decay times decay_mult.")
      .def_readonly("together", &PyUpdate::together,
                    "Whether others change these weights as well, so that gradients may be stale.")
      .def_readonly("updates", &PyUpdate::updates,
                    "With `counts`: 1 in the first iteration of the run; else 0.")
      .def_readonly("gradients", &PyUpdate::gradients,
                    "Of the iteration, scaled for iter_size and clip_gradients.")
      .def_property(
          "weights", [](const PyUpdate& update) { return update.weights; },
          [](PyUpdate& update, const py::object& values) {
            update.weights[py::ellipsis()] = values;
          },
          "To be changed.")
      .def_property_readonly(
          "history", [](const PyUpdate& update) { return py::list(update.history); },
          "`slots` arrays, initially 0, to be changed in place.");
  module->def("register_rule", &Register);
}

}  // namespace millrace::python
