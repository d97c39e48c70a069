// Samplers, sync conditions and stop conditions in Python.
#include <pybind11/stl.h>

#include <cmath>
#include <memory>
#include <optional>

#include "millrace/sampler.h"
#include "millrace/stop_condition.h"
#include "millrace/sync_condition.h"
#include "owner.h"
#include "python_call.h"

namespace millrace::python {
namespace {

class PythonSampler : public Sampler {
 public:
  PythonSampler(const RegisteredClass& registered, const std::string& name,
                const std::vector<PartParameter>& parameters, const SampledData& data,
                const PartValues& values)
      : name_(name), total_(data.total) {
    CallFactory([&] {
      const py::object sampler = registered.type(py::cast(data), **ArgumentsOf(parameters, values));
      record_.emplace(sampler.attr("record"));
    });
  }

  uint64_t Record(uint64_t epoch, uint64_t number) const override {
    const PythonCall call;
    const int64_t record = WholeNumber(record_->get()(epoch, number));
    if (record >= 0 && static_cast<uint64_t>(record) < total_) return record;
    throw Error("sampler ", name_, ": record(", epoch, ", ", number, ") is ", record,
                ", expected 0 to ", total_ - 1);
  }

 private:
  const std::string name_;
  const uint64_t total_;
  std::optional<HeldObject> record_;  // a method
};

void SetMethod(const py::object& of, const char* name, std::optional<HeldObject>* method) {
  if (py::hasattr(of, name)) method->emplace(of.attr(name));
}

// The state for one call of a sync condition, which may keep it.
struct PySyncState {
  int64_t iterations = 0, shared_iterations = 0;
  double seconds = 0;
  const SyncState* of_call = nullptr;  // null after the call

  py::array_t<float> Values(std::span<const float> SyncState::*values) const {
    if (of_call == nullptr) throw Error("the state of a sync condition: its call has ended");
    return CopyOf((of_call->*values).data(), (of_call->*values).size());
  }
};

class PythonSyncCondition : public SyncCondition {
 public:
  PythonSyncCondition(const RegisteredClass& registered, const std::string& name,
                      bool reads_weights, const std::vector<PartParameter>& parameters,
                      const PartValues& values)
      : name_(name), reads_weights_(reads_weights) {
    CallFactory([&] {
      const py::object condition = registered.type(**ArgumentsOf(parameters, values));
      fires_.emplace(condition.attr("fires"));
      SetMethod(condition, "merging", &merging_);
      SetMethod(condition, "state", &numbers_of_state_);
      if (numbers_of_state_) restore_.emplace(condition.attr("restore"));
      numbers_ = numbers_of_state_ ? Numbers().size() : 0;
    });
  }

  bool ReadsWeights() const override { return reads_weights_; }
  bool Fires(const SyncState& state) override {
    const PythonCall call;
    return py::cast<bool>(py::bool_(Call(*fires_, state)));
  }
  void Merging(const SyncState& state) override {
    if (!merging_) return;
    const PythonCall call;
    Call(*merging_, state);
  }
  std::vector<double> State() const override {
    if (numbers_ == 0) return {};
    const PythonCall call;
    std::vector<double> numbers = Numbers();
    if (numbers.size() == numbers_) return numbers;
    throw Error("sync condition ", name_, ": state() has ", numbers.size(), " numbers, expected ",
                numbers_, " as after its construction");
  }
  void Restore(std::span<const double> state) override {
    if (numbers_ == 0) return;
    const PythonCall call;
    restore_->get()(std::vector<double>(state.begin(), state.end()));
  }

 private:
  static py::object Call(const HeldObject& method, const SyncState& state) {
    const auto given = std::make_shared<PySyncState>(
        PySyncState{state.iterations, state.shared_iterations, state.seconds, &state});
    const std::shared_ptr<void> end(nullptr, [&](void*) { given->of_call = nullptr; });
    return method.get()(given);
  }
  std::vector<double> Numbers() const {
    auto numbers = py::cast<std::vector<double>>(numbers_of_state_->get()());
    for (const double number : numbers) {
      if (std::isfinite(number)) continue;
      throw Error("sync condition ", name_, ": state() has ", number, ", expected finite numbers");
    }
    return numbers;
  }

  const std::string name_;
  const bool reads_weights_;
  // Methods; the last three may be missing.
  std::optional<HeldObject> fires_, merging_, numbers_of_state_, restore_;
  size_t numbers_ = 0;  // of State
};

// TestedOutputs with values of its own.
struct PyTested {
  int64_t iteration = 0;
  int net = 0;
  std::vector<double> outputs;
};

class PythonStopCondition : public StopCondition {
 public:
  PythonStopCondition(const RegisteredClass& registered,
                      const std::vector<PartParameter>& parameters, const PartValues& values) {
    CallFactory([&] {
      const py::object condition = registered.type(**ArgumentsOf(parameters, values));
      SetMethod(condition, "after_iteration", &after_iteration_);
      SetMethod(condition, "after_test", &after_test_);
    });
  }

  std::string AfterIteration(const RunProgress& run) override {
    return after_iteration_ ? Ask(*after_iteration_, run) : "";
  }
  std::string AfterTest(const TestedOutputs& test) override {
    if (!after_test_) return "";
    return Ask(*after_test_,
               PyTested{test.iteration, test.net, {test.outputs.begin(), test.outputs.end()}});
  }

 private:
  template <typename State>
  static std::string Ask(const HeldObject& method, const State& state) {
    const PythonCall call;
    const py::object why = method.get()(py::cast(state));
    return why.is_none() ? "" : py::cast<std::string>(py::str(why));
  }

  std::optional<HeldObject> after_iteration_, after_test_;  // none: the class has no such method
};

void RegisterSamplerClass(const std::string& name, py::object type, bool needs_labels,
                          const GivenParameters& given) {
  const std::string signature = StrCat(needs_labels, SignatureOf(given));
  RegisterClass("sampler", name, std::move(type), signature, [&](const RegisteredClass& made) {
    const std::vector<PartParameter> parameters = ParametersOf(given);
    RegisterSampler(
        {.name = name, .parameters = parameters},
        [&made, name, parameters](const SampledData& data, const PartValues& values) {
          return std::make_shared<PythonSampler>(made, name, parameters, data, values);
        },
        needs_labels);
  });
}

void RegisterSyncClass(const std::string& name, py::object type, bool reads_weights,
                       const GivenParameters& given) {
  const std::string signature = StrCat(reads_weights, SignatureOf(given));
  RegisterClass(
      "sync condition", name, std::move(type), signature, [&](const RegisteredClass& made) {
        const std::vector<PartParameter> parameters = ParametersOf(given);
        RegisterSyncCondition({.name = name, .parameters = parameters},
                              [&made, name, reads_weights, parameters](const PartValues& values) {
                                return std::make_unique<PythonSyncCondition>(
                                    made, name, reads_weights, parameters, values);
                              });
      });
}

void RegisterStopClass(const std::string& name, py::object type, bool needs_tests,
                       const GivenParameters& given) {
  const std::string signature = StrCat(needs_tests, SignatureOf(given));
  RegisterClass("stop condition", name, std::move(type), signature,
                [&](const RegisteredClass& made) {
                  const std::vector<PartParameter> parameters = ParametersOf(given);
                  RegisterStopCondition(
                      {.name = name, .parameters = parameters},
                      [&made, parameters](const PartValues& values) {
                        return std::make_unique<PythonStopCondition>(made, parameters, values);
                      },
                      needs_tests);
                });
}

}  // namespace

void BindPythonConditions(py::module_* module) {
  py::class_<SampledData>(*module, "SampledData", "What a sampler knows of the data of a layer.")
      .def_readonly("records", &SampledData::total, "Their number, at least 1.")
      .def_readonly("seed", &SampledData::seed, "With `stream`, the key of random choices.")
      .def_readonly("stream", &SampledData::stream)
      .def_property_readonly(
          "labels",
          [](const SampledData& data) -> py::object {
            if (data.labels.empty()) return py::none();
            return py::array_t<int32_t>(static_cast<py::ssize_t>(data.labels.size()),
                                        data.labels.data());
          },
          "With `needs_labels`, an array of the labels by record; else None.");
  py::class_<PySyncState, std::shared_ptr<PySyncState>>(
      *module, "SyncState", "A solver after an iteration, for a sync condition.")
      .def_readonly("iterations", &PySyncState::iterations,
                    "Of this solver since the last merge, or since its start.")
      .def_readonly("shared_iterations", &PySyncState::shared_iterations,
                    "Of all solvers of the run since then.")
      .def_readonly("seconds", &PySyncState::seconds, "Since then.")
      .def_property_readonly(
          "weights", [](const PySyncState& state) { return state.Values(&SyncState::weights); },
          "A copy of all weights of the solver, one array of float32. During the call alone.")
      .def_property_readonly(
          "base", [](const PySyncState& state) { return state.Values(&SyncState::base); },
          "The same of what they were after the last merge.");
  py::class_<RunProgress>(*module, "RunProgress", "For StopCondition.after_iteration.")
      .def_readonly("iterations", &RunProgress::iterations,
                    "Completed by all solvers of the run, also before a resume.")
      .def_readonly("seconds", &RunProgress::seconds, "Since this process began to train.");
  py::class_<PyTested>(*module, "TestedOutputs", "For StopCondition.after_test.")
      .def_readonly("iteration", &PyTested::iteration)
      .def_readonly("net", &PyTested::net, "The index of the test net.")
      .def_readonly("outputs", &PyTested::outputs, "Their means, in the order of the log.");
  module->def("register_sampler", &RegisterSamplerClass);
  module->def("register_sync_condition", &RegisterSyncClass);
  module->def("register_stop_condition", &RegisterStopClass);
}

}  // namespace millrace::python
