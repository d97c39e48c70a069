// millrace.ControlService, millrace.Controller and what belongs to them.
#include "millrace/control.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/controller.h"
#include "millrace/run.h"
#include "owner.h"

namespace millrace::python {
namespace {

using PyService = std::unique_ptr<ControlService, DeleteWithoutLock<ControlService>>;

// A command in Python: a function of a value that JSON can have, which returns one.
ControlCommand CommandOf(const std::string& name, const py::function& function) {
  const py::object doc = py::getattr(function, "__doc__", py::none());
  ControlCommand command;
  command.name = name;
  command.help = doc.is_none() ? "" : py::cast<std::string>(doc);
  // Shared, because copies of the command come and go without the lock.
  const std::shared_ptr<py::function> shared(new py::function(function), [](py::function* held) {
    const py::gil_scoped_acquire acquire;
    delete held;
  });
  command.run = [shared](const ControlCall& call) -> std::string {
    const py::gil_scoped_acquire acquire;
    try {
      const py::module_ json = py::module_::import("json");
      return py::cast<std::string>(
          json.attr("dumps")((*shared)(json.attr("loads")(call.arguments))));
    } catch (const py::error_already_set& error) {
      throw Error(py::cast<std::string>(py::str(error.value())));
    }
  };
  return command;
}

PyService Serve(Run* run, const std::string& address,
                const std::map<std::string, py::function>& commands,
                const std::optional<Path>& topology, const std::string& node,
                const std::optional<Path>& key_file, const std::optional<Path>& certificate,
                const std::optional<Path>& private_key, const std::optional<Path>& authorities,
                const std::string& rendezvous) {
  ControlOptions options;
  options.address = address;
  options.topology = TextOf(topology);
  options.node = node;
  options.rendezvous = rendezvous;
  options.key_file = TextOf(key_file);
  options.certificate = TextOf(certificate);
  options.private_key = TextOf(private_key);
  options.authorities = TextOf(authorities);
  for (const auto& [name, function] : commands)
    options.commands.push_back(CommandOf(name, function));
  const py::gil_scoped_release release;
  return PyService(new ControlService(options, run));
}

class PyController : public Controller {
 public:
  Instruction Next(const Worker& worker) override {
    PYBIND11_OVERRIDE_PURE_NAME(Instruction, Controller, "next", Next, worker);
  }
  void Left(const Worker& worker) override {
    PYBIND11_OVERRIDE_NAME(void, Controller, "left", Left, worker);
  }
  std::string State() const override {
    PYBIND11_OVERRIDE_NAME(std::string, Controller, "state", State, );
  }
  void Restore(const std::string& state) override {
    PYBIND11_OVERRIDE_NAME(void, Controller, "restore", Restore, state);
  }
};

void Control(Controller* controller, const std::optional<Path>& topology,
             const std::vector<std::string>& addresses, const std::optional<Path>& key_file,
             bool tls, const std::optional<Path>& authorities,
             const std::optional<Path>& state_file) {
  ControllerOptions options;
  options.topology = TextOf(topology);
  options.addresses = addresses;
  options.key_file = TextOf(key_file);
  options.tls = tls;
  options.authorities = TextOf(authorities);
  options.state_file = TextOf(state_file);
  bool interrupted = false;
  options.stopped = [&] {
    const py::gil_scoped_acquire acquire;
    return interrupted = PyErr_CheckSignals() != 0;
  };
  {
    const py::gil_scoped_release release;
    RunController(controller, options);
  }
  if (interrupted) throw py::error_already_set();
}

void BindController(py::module_* module) {
  py::class_<Instruction>(*module, "Instruction", "What a worker does next.")
      .def_static("train", &Instruction::Train, py::arg("iterations"),
                  "Train for so many iterations of the run from now on.")
      .def_static("test", &Instruction::Test, "Run the test nets.")
      .def_static("snapshot", &Instruction::Snapshot, "Write a snapshot.")
      .def_static("set_learning_rate", &Instruction::SetLearningRate, py::arg("rate"),
                  "Replace the learning rate of the solver file; 0: the file's again.")
      .def_static("pause", &Instruction::Pause, "Begin no iteration until the next instruction.")
      .def_static("stop", &Instruction::Stop, "Save and end.");
  py::class_<Worker>(*module, "Worker", "A worker as its control service reports it.")
      .def_readonly("name", &Worker::name, "Its name in the topology, or its address.")
      .def_readonly("state", &Worker::state, "As of Run.status(), or \"lost\".")
      .def_readonly("iteration", &Worker::iteration, "Of the run.")
      .def_readonly("max_iteration", &Worker::max_iteration, "0: not known yet.")
      .def_readonly("loss", &Worker::loss, "Smoothed.")
      .def_readonly("learning_rate", &Worker::learning_rate, "Of the last iteration.")
      .def_readonly("test_iteration", &Worker::test_iteration, "Of the last test; -1: none.")
      .def_readonly("outputs", &Worker::outputs, "Of the first test net's last test, by name.")
      .def_readonly("snapshot", &Worker::snapshot, "Its last .solverstate; \"\": none.");
  py::class_<Controller, PyController>(
      *module, "Controller",
      "Base of controllers: decides what the workers of a run do next. next(worker) returns an "
      "Instruction; left(worker), state() and restore(text) may be defined as well.")
      .def(py::init<>())
      .def("next", &Controller::Next, py::arg("worker"),
           "Called when a worker is first seen, and when it has done what it was told.")
      .def("left", &Controller::Left, py::arg("worker"), "The worker has ended or is lost.")
      .def("state", &Controller::State, "What a new start needs, in one line.")
      .def("restore", &Controller::Restore, py::arg("state"), "Takes what state() returned.")
      .def("run", &Control, py::kw_only(), py::arg("topology") = std::optional<Path>(),
           py::arg("addresses") = std::vector<std::string>(),
           py::arg("key_file") = std::optional<Path>(), py::arg("tls") = false,
           py::arg("authorities") = std::optional<Path>(),
           py::arg("state_file") = std::optional<Path>(),
           "Controls the workers until all have ended or are lost. addresses: of their "
           "control services; else those of the topology.");
}

}  // namespace

void BindControl(py::module_* module) {
  py::class_<ControlService, PyService>(
      *module, "ControlService",
      "The control service of a run (docs/control.md), as long as it exists: HTTP with JSON.")
      .def(py::init(&Serve), py::arg("run"), py::arg("address") = "", py::kw_only(),
           py::arg("commands") = std::map<std::string, py::function>(),
           py::arg("topology") = std::optional<Path>(), py::arg("node") = "",
           py::arg("key_file") = std::optional<Path>(),
           py::arg("certificate") = std::optional<Path>(),
           py::arg("private_key") = std::optional<Path>(),
           py::arg("authorities") = std::optional<Path>(), py::arg("rendezvous") = "",
           py::keep_alive<1, 2>(),
           "Listens at \"host:port\" from now on. commands: functions by name, for `millrace ctl "
           "call NAME JSON`: each takes and returns a value that JSON can have. topology and node, "
           "or rendezvous: of the run, for the other nodes and the key.")
      .def_property_readonly("url", &ControlService::url, "Where it listens.");
  BindController(module);
}

}  // namespace millrace::python
