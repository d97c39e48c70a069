// millrace.Run.
#include "millrace/run.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "owner.h"

namespace millrace::python {
namespace {

using PyRun = std::unique_ptr<Run, DeleteWithoutLock<Run>>;

PyRun Start(const Path& solver_file, std::optional<int> cpus, const std::string& gpus,
            const std::string& precision, const std::vector<Path>& weights,
            const std::optional<Path>& snapshot, const std::optional<Path>& metrics_file,
            const std::optional<Path>& topology, const std::string& node,
            const std::string& rendezvous, const std::string& nodes) {
  RunOptions options;
  options.solver_file = solver_file.string();
  options.cpus = cpus;
  options.gpus = gpus;
  options.precision = precision;
  options.weights = TextsOf(weights);
  options.snapshot = TextOf(snapshot);
  options.metrics_file = TextOf(metrics_file);
  options.topology = TextOf(topology);
  options.node = node;
  options.rendezvous = rendezvous;
  options.nodes = nodes;
  const py::gil_scoped_release release;
  return PyRun(Run::Start(options).release());
}

py::list TestsOf(const std::vector<RunTest>& tests) {
  py::list list;
  for (const RunTest& test : tests) {
    list.append(py::dict(py::arg("net") = test.net, py::arg("iteration") = test.iteration,
                         py::arg("outputs") = PairsOf(test.outputs)));
  }
  return list;
}

// A condition in Python may hold what calls of a run wait for, so they release the interpreter's
// lock.
using Released = py::call_guard<py::gil_scoped_release>;

py::dict StatusOf(const Run& run) {
  const RunStatus status = [&] {
    const py::gil_scoped_release release;
    return run.status();
  }();
  return py::dict(
      py::arg("state") = NameOf(status.state), py::arg("iteration") = status.iteration,
      py::arg("max_iteration") = status.max_iteration, py::arg("loss") = status.loss,
      py::arg("learning_rate") = status.learning_rate, py::arg("seconds") = status.seconds,
      py::arg("iterations_per_second") = status.iterations_per_second,
      py::arg("images_per_iteration") = status.images_per_iteration, py::arg("node") = status.node,
      py::arg("cluster") = status.cluster, py::arg("tests") = TestsOf(status.tests),
      py::arg("snapshot_iteration") = status.snapshot_iteration,
      py::arg("snapshot") = status.snapshot);
}

py::dict Wait(Run* run) {
  for (bool ended = false; !ended;) {
    {
      const py::gil_scoped_release release;
      ended = run->WaitFor(0.05);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  const RunResult result = run->Wait();  // has ended
  return py::dict(py::arg("iteration") = result.iteration,
                  py::arg("stopped_early") = result.stopped_early, py::arg("loss") = result.loss,
                  py::arg("tests") = TestsOf(result.tests), py::arg("model") = result.model,
                  py::arg("state") = result.state);
}

}  // namespace

void BindRun(py::module_* module) {
  py::class_<Run, PyRun>(*module, "Run",
                         "A training run in the background, as `millrace train` makes it: several "
                         "solvers on CPUs and GPUs, tests and snapshots as the solver file says. "
                         "Thread-safe. Deleting it stops the run.")
      .def(py::init(&Start), py::arg("solver_file"), py::kw_only(),
           py::arg("cpus") = std::optional<int>(), py::arg("gpus") = "",
           py::arg("precision") = "auto", py::arg("weights") = std::vector<Path>(),
           py::arg("snapshot") = std::optional<Path>(),
           py::arg("metrics_file") = std::optional<Path>(),
           py::arg("topology") = std::optional<Path>(), py::arg("node") = "",
           py::arg("rendezvous") = "", py::arg("nodes") = "",
           "Starts the run. cpus: solver threads; gpus: \"0,2\" or \"all\", which compute in "
           "`precision`: \"auto\", \"fp32\", \"tf32\" or \"bf16\"; rendezvous and nodes: "
           "as of a Session. What a file has wrong is raised by wait().")
      .def("status", &StatusOf,
           "A dict: state (\"starting\", \"training\", \"paused\", \"stopping\" or \"ended\"), "
           "iteration, max_iteration, loss, learning_rate, seconds, iterations_per_second, "
           "images_per_iteration, tests (a dict for each test net: net, iteration, outputs), "
           "snapshot_iteration and snapshot.")
      .def("pause", &Run::Pause, Released(), "Solvers begin no further iteration until resume().")
      .def("resume", &Run::Resume, Released(), "Ends a pause.")
      .def("snapshot", &Run::Snapshot, Released(), "Asks for a snapshot, also during a pause.")
      .def("test", &Run::Test, Released(), "Asks for a test of all test nets, also during a pause.")
      .def("set_learning_rate", &Run::SetLearningRate, Released(), py::arg("rate"),
           "Replaces the learning rate of the solver file; 0: the file's again.")
      .def("stop", &Run::Stop, Released(),
           "The solvers finish their iterations; the run is saved and ends.")
      .def(
          "wait_for",
          [](Run* run, double seconds) {
            const py::gil_scoped_release release;
            return run->WaitFor(seconds);
          },
          py::arg("seconds"), "Whether the run has ended within so many seconds.")
      .def("wait", &Wait,
           "Waits for the end and returns a dict: iteration, stopped_early, loss, tests, model, "
           "state (the files of the last snapshot). Raises the error that ended the run.");
}

}  // namespace millrace::python
