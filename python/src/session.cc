// millrace.Session.
#include "millrace/session.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "millrace/caffe.pb.h"
#include "owner.h"

namespace millrace::python {
namespace {

class PySession {
 public:
  explicit PySession(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}
  // A call of Python may hold the last reference to it: not before that is gone.
  ~PySession() {
    if (owner_->session) owner_->session->OnGradients({});
  }
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  const std::shared_ptr<Owner>& owner() const { return owner_; }
  Session& session() const { return *owner_->session; }

  // None once the schedule has ended; else the last of `count` steps.
  std::optional<SessionStep> Step(int64_t count) {
    std::optional<SessionStep> last;
    for (int64_t i = 0; i < count; ++i) {
      const std::optional<SessionStep> step = Compute(owner_, [this] {
        FollowShapes();
        return session().Step();
      });
      if (!step) break;
      last = step;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return last;
  }

  std::vector<TestOutput> Test(int index) {
    return Compute(owner_, [&] {
      FollowShapes();
      return session().Test(index);
    });
  }

 private:
  // The session runs its nets as they are: all blobs follow those that Python has reshaped. Throws
  // Error, each time, if they do not fit.
  void FollowShapes() {
    if (!owner_->reshaped) return;
    session().net().Reshape();
    for (int i = 0; i < session().test_nets(); ++i) session().test_net(i).Reshape();
    owner_->reshaped = false;
  }

  const std::shared_ptr<Owner> owner_;
};

struct Options {
  std::vector<Path> weights;
  std::optional<Path> snapshot, topology;
  std::string node;
  double join_seconds = 60;
  std::pair<uint64_t, uint64_t> shard;
  bool past_max_iter = false;
  bool live_blobs = true;
  std::optional<int> solvers;
  std::string gpus, precision, rendezvous, nodes;
};

std::unique_ptr<PySession> Open(
    const Options& given,
    const std::function<std::unique_ptr<Session>(const SessionOptions&)>& open) {
  const auto owner = std::make_shared<Owner>();
  owner->metrics = std::make_unique<MetricsRegistry>(MetricsRegistry::kFolder);
  SessionOptions options;
  options.weights = TextsOf(given.weights);
  options.snapshot = TextOf(given.snapshot);
  options.topology = TextOf(given.topology);
  options.node = given.node;
  options.join_seconds = given.join_seconds;
  options.shard_index = given.shard.first;
  options.shard_count = given.shard.second;
  options.past_max_iter = given.past_max_iter;
  options.plain_blobs_on_use = owner->live_blobs = given.live_blobs;
  options.solvers = given.solvers;
  options.gpus = given.gpus;
  options.precision = given.precision;
  options.rendezvous = given.rendezvous;
  options.nodes = given.nodes;
  options.metrics = owner->metrics.get();
  Compute(owner, [&] { owner->session = open(options); });
  return std::make_unique<PySession>(owner);
}

py::list Metrics(const PySession& session) {
  const MetricsReading reading = session.owner()->metrics->Read();
  py::list metrics;
  for (const MetricsReading::Metric& metric : reading.metrics) {
    py::dict labels;
    for (const auto& [key, value] : metric.labels) labels[py::str(key)] = value;
    py::dict entry;
    const MetricsReading::Family& family = reading.families[metric.family];
    entry["name"] = family.name;
    entry["labels"] = labels;
    entry["value"] = metric.value;
    entry["help"] = family.help;
    entry["unit"] = family.unit;
    metrics.append(entry);
  }
  return metrics;
}

constexpr char kSessionDoc[] = R"(Solvers, as a solver file describes them, that the program steps.

    session = millrace.Session("solver.prototxt")
    while step := session.step():
        print(step.iteration, step.loss)
    session.snapshot()

Args:
  solver_file: path of the solver's prototxt.
  weights: .caffemodel files to start from.
  snapshot: a .solverstate to continue; excludes `weights`.
  topology, node: path of a topology file and this node's name there, for a cluster; without a
    name, the rank of the launcher (mpirun, srun) chooses it.
  join_seconds: longest time to wait for the weights of a cluster's run.
  shard: (i, n) trains on the i-th of n parts of the records; (0, 0): the topology's, or all.
  past_max_iter: step goes on after max_iter, which then only counts for the learning rate.
  live_blobs: nets train as fast as in `millrace train` until the program reads or writes a blob
    whose values lie in another order than the array's, or runs a pass of its own; from then on
    they keep all values in that order, and steps may take longer. False: net.params, test and
    snapshot work, net.blobs and passes raise Error.
  solvers: number on processors that learn together by the strategy of the solver file, each on a
    thread; None: 1, and 0 beside GPUs. A step is an iteration of each; net, on_gradients and
    apply_update are those of the first.
  gpus: "0,2" or "all": a solver on each of these, whose progress streams into the weights of `net`
    while it trains; test, snapshot, finish and leave bring in all of it. Without a solver on a
    processor, `net` is on the host, for passes of the program's own. They compute in `precision`:
    "auto", "fp32", "tf32" or "bf16", as in `millrace train`.
  rendezvous, nodes: "etcd://HOST:PORT/RUN" and "MIN:MAX", for nodes that join and leave by a
    registry (docs/operations.md, "Elastic clusters"). The topology then has segments only, or is
    None, and the node has no name.

One call at a time uses a session; the interpreter's lock is released meanwhile. Raises
millrace.Error with one line that names file, field and expectation.)";

// The message of a text. Throws Error with the first mistake.
caffe::SolverParameter SolverParameterOf(const std::string& text) {
  struct Mistakes : google::protobuf::io::ErrorCollector {
    void AddError(int line, int, const std::string& message) override {
      if (first.empty()) first = StrCat(line + 1, ": ", message);
    }
    std::string first;
  } mistakes;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  caffe::SolverParameter param;
  if (!parser.ParseFromString(text, &param)) throw Error("set_schedule:", mistakes.first);
  return param;
}

// Named arguments after the first ones, of both constructors.
template <typename Class, typename Factory, typename... First>
void DefOpen(Class* binding, Factory open, const First&... first) {
  open(binding, first..., py::kw_only(), py::arg("weights") = std::vector<Path>(),
       py::arg("snapshot") = std::nullopt, py::arg("topology") = std::nullopt, py::arg("node") = "",
       py::arg("join_seconds") = 60.0, py::arg("shard") = std::pair<uint64_t, uint64_t>(0, 0),
       py::arg("past_max_iter") = false, py::arg("live_blobs") = true,
       py::arg("solvers") = std::optional<int>(), py::arg("gpus") = "",
       py::arg("precision") = "auto", py::arg("rendezvous") = "", py::arg("nodes") = "");
}

}  // namespace

std::vector<std::string> TextsOf(const std::vector<Path>& paths) {
  std::vector<std::string> texts;
  for (const Path& path : paths) texts.push_back(path.string());
  return texts;
}

std::vector<std::pair<std::string, double>> PairsOf(const std::vector<TestOutput>& outputs) {
  std::vector<std::pair<std::string, double>> pairs;
  for (const TestOutput& output : outputs) pairs.emplace_back(output.name, output.mean);
  return pairs;
}

void BindSession(py::module_* module) {
  py::class_<SessionStep>(*module, "Step", "One iteration of each solver.")
      .def_readonly("iteration", &SessionStep::iteration,
                    "Number of the last one, from 0, over all solvers and all nodes of a cluster.")
      .def_readonly("loss", &SessionStep::loss,
                    "Mean over solvers and iter_size passes, before the update.")
      .def_readonly("learning_rate", &SessionStep::learning_rate, "Of the update.")
      .def("__repr__", [](const SessionStep& step) {
        return StrCat("<Step ", step.iteration, ": loss ", step.loss, ", learning rate ",
                      step.learning_rate, ">");
      });

  py::class_<PySession> session(*module, "Session", kSessionDoc);
  DefOpen(&session, [](auto* binding, const auto&... extra) {
    binding->def(
        py::init([](const Path& file, std::vector<Path> weights, std::optional<Path> snapshot,
                    std::optional<Path> topology, std::string node, double join_seconds,
                    std::pair<uint64_t, uint64_t> shard, bool past_max_iter, bool live_blobs,
                    std::optional<int> solvers, std::string gpus, std::string precision,
                    std::string rendezvous, std::string nodes) {
          return Open(
              {weights, snapshot, topology, node, join_seconds, shard, past_max_iter, live_blobs,
               solvers, gpus, precision, rendezvous, nodes},
              [&](const SessionOptions& options) { return Session::Open(file.string(), options); });
        }),
        py::arg("solver_file"), extra...);
  });
  DefOpen(&session, [](auto* binding, const auto&... extra) {
    binding->def_static(
        "from_text",
        [](const std::string& text, const std::string& name, std::vector<Path> weights,
           std::optional<Path> snapshot, std::optional<Path> topology, std::string node,
           double join_seconds, std::pair<uint64_t, uint64_t> shard, bool past_max_iter,
           bool live_blobs, std::optional<int> solvers, std::string gpus, std::string precision,
           std::string rendezvous, std::string nodes) {
          return Open({weights, snapshot, topology, node, join_seconds, shard, past_max_iter,
                       live_blobs, solvers, gpus, precision, rendezvous, nodes},
                      [&](const SessionOptions& options) {
                        return Session::OpenText(text, name, options);
                      });
        },
        py::arg("text"), py::arg("name") = "solver", extra...,
        "A session from the text of a solver file; `name` stands for the file in messages and,\n"
        "without its extension, as snapshot prefix.");
  });
  session
      .def(
          "step", &PySession::Step, py::arg("count") = 1,
          "Computes `count` iterations of each solver and applies their updates. Returns the last\n"
          "as a Step, or None if the schedule had ended before. Ctrl-C ends the call between two "
          "iterations.")
      .def_property_readonly(
          "iteration", [](const PySession& s) { return s.session().iteration(); },
          "Iterations completed, by all nodes.")
      .def_property_readonly(
          "learning_rate", [](const PySession& s) { return s.session().learning_rate(); },
          "Of the next iteration.")
      .def_property_readonly(
          "net", [](const PySession& s) { return NetOf(s.owner(), &s.session().net()); },
          "The train net. Its blobs hold the values and gradients of the last step.")
      .def_property_readonly(
          "test_nets",
          [](const PySession& s) {
            py::list nets;
            for (int i = 0; i < s.session().test_nets(); ++i) {
              nets.append(NetOf(s.owner(), &s.session().test_net(i)));
            }
            return nets;
          },
          "The test nets of the solver file, which share the weights of the train net.")
      .def(
          "test", [](PySession& s, int index) { return PairsOf(s.Test(index)); },
          py::arg("index") = 0,
          "Runs test net `index` for its test_iter batches. Returns (name of the blob, mean) of\n"
          "each value of each output.")
      .def(
          "snapshot",
          [](PySession& s) { return Compute(s.owner(), [&] { return s.session().Snapshot(); }); },
          "Writes PREFIX_iter_N.caffemodel and .solverstate; returns the path of the latter.")
      .def(
          "restore",
          [](PySession& s, const Path& file) {
            Compute(s.owner(), [&] { s.session().Restore(file.string()); });
          },
          py::arg("snapshot"),
          "Goes on from a .solverstate: weights, history, iteration, and before the first step\n"
          "also the position in the data.")
      .def(
          "apply_update",
          [](PySession& s) { Compute(s.owner(), [&] { s.session().ApplyUpdate(); }); },
          "Updates the weights from the gradients that `net` holds, as step does. `iteration`\n"
          "stays.")
      .def(
          "on_gradients",
          [](PySession& s, std::optional<std::function<void()>> call) {
            const Busy busy(s.owner());
            s.session().OnGradients(call ? *call : std::function<void()>());
          },
          py::arg("call"),
          "step calls `call` when the gradients of an iteration are there, before their update.\n"
          "None: no longer.")
      .def(
          "set_schedule",
          [](PySession& s, const std::string& text) {
            const caffe::SolverParameter param = SolverParameterOf(text);
            const Busy busy(s.owner());
            s.session().SetSchedule(param);
          },
          py::arg("text"),
          "The next iterations follow the learning-rate fields of this text of a solver file; its\n"
          "other fields are ignored.")
      .def(
          "set_memory_data",
          [](PySession& s, const std::string& layer, const FloatArray& data,
             const FloatArray& labels, std::optional<int> test_net) {
            Compute(s.owner(), [&] {
              s.session().SetMemoryData(layer, {data.data(), static_cast<size_t>(data.size())},
                                        {labels.data(), static_cast<size_t>(labels.size())},
                                        test_net);
            });
          },
          py::arg("layer"), py::arg("data").noconvert(), py::arg("labels").noconvert(),
          py::arg("test_net") = std::nullopt,
          "As Net.set_memory_data, of the train net or of test net `test_net`.")
      .def("metrics", &Metrics,
           "The metrics of the session at this moment: a list of dicts with name, labels, value,\n"
           "help and unit.")
      .def_property_readonly(
          "is_leader", [](const PySession& s) { return s.session().is_leader(); },
          "Whether this node is the one that tests and saves for all.")
      .def(
          "finish", [](PySession& s) { Compute(s.owner(), [&] { s.session().Finish(); }); },
          "In a cluster: waits until all nodes have ended and have the same weights, then leaves.")
      .def(
          "leave", [](PySession& s) { Compute(s.owner(), [&] { s.session().Leave(); }); },
          "In a cluster: sends unsent progress, then leaves. The other nodes continue.");
}

}  // namespace millrace::python
