// millrace.Member: a numpy array that a cluster exchanges.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "millrace/cluster.h"
#include "owner.h"

namespace millrace::python {

std::span<float> ValuesOf(const py::object& object, const std::string& name, bool writable) {
  if (!py::isinstance<py::array>(object)) {
    throw Error(name, ": a ", py::str(py::type::of(object).attr("__name__")).cast<std::string>(),
                " given, expected a numpy array");
  }
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (!array.dtype().equal(py::dtype::of<float>())) {
    throw Error(name, ": values of type ", py::str(array.dtype()).cast<std::string>(),
                " given, expected float32");
  }
  if ((array.flags() & py::array::c_style) == 0) {
    throw Error(name, ": expected a contiguous array in row-major order");
  }
  if (writable && !array.writeable()) throw Error(name, ": expected an array that is writable");
  return {const_cast<float*>(static_cast<const float*>(array.data())),
          static_cast<size_t>(array.size())};
}

void PollSignals() {
  const py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

namespace {

constexpr uintptr_t kAlignment = 64;

class PyMember {
 public:
  PyMember(const py::object& array, const std::optional<Path>& topology, std::string node,
           uint64_t layout, int64_t iteration, std::string rendezvous, std::string nodes,
           const std::string& scaling, int64_t warmup) {
    const std::span<float> weights = ValuesOf(array, "array", true);
    array_ = array;
    if (weights.empty()) throw Error("array: expected at least one value");
    if (reinterpret_cast<uintptr_t>(weights.data()) % kAlignment != 0) {
      throw Error("array: expected memory at a multiple of ", kAlignment,
                  " bytes, make the array by millrace.empty(shape)");
    }
    if (iteration < 0) throw Error("iteration: ", iteration, " given, expected at least 0");
    if (warmup < 0) throw Error("warmup: ", warmup, " given, expected at least 0");
    if (scaling != "none" && scaling != "linear" && scaling != "root") {
      throw Error("scaling: '", scaling, "' given, expected 'none', 'linear' or 'root'");
    }
    // An array that is referred to does not move its memory (ndarray.resize).
    py::object memory = array_;
    while (py::isinstance<py::array>(memory.attr("base"))) memory = memory.attr("base");
    pin_ = py::weakref(memory);
    const ClusterOptions options{.topology = TextOf(topology),
                                 .node = std::move(node),
                                 .layout = layout,
                                 .iteration = iteration,
                                 .poll = PollSignals,
                                 .rendezvous = std::move(rendezvous),
                                 .nodes = std::move(nodes),
                                 .scaling = scaling,
                                 .warmup = warmup};
    const py::gil_scoped_release release;
    member_ = std::make_unique<ClusterMember>(options, weights);
  }
  ~PyMember() {
    // The threads of the member exist only in the process that has made it.
    if (getpid() != process_) {
      static_cast<void>(member_.release());
      return;
    }
    const py::gil_scoped_release release;
    member_.reset();
  }
  PyMember(const PyMember&) = delete;
  PyMember& operator=(const PyMember&) = delete;

  const py::object& array() const { return array_; }

  // Calls work(member) without the interpreter's lock, one call at a time.
  template <typename Work>
  auto Call(Work work) {
    ExpectThisProcess();
    const InUse in_use(&busy_);
    if (!member_) throw Error("the member has left the cluster");
    const py::gil_scoped_release release;
    return work(member_.get());
  }
  void Join(double seconds) {
    Call([=](ClusterMember* member) { member->Join(seconds); });
    joined_ = true;
  }
  // Calls work(member), after which the member has left: also after an Error, unless it has not
  // joined.
  template <typename Work>
  void End(Work work) {
    ExpectThisProcess();
    const InUse in_use(&busy_);
    if (!member_) throw Error("the member has left the cluster");
    const py::gil_scoped_release release;
    try {
      work(member_.get());
    } catch (const Error&) {
      if (joined_) Reset();
      throw;
    }
    Reset();
  }
  int64_t iterations() const {
    ExpectThisProcess();
    const std::lock_guard lock(mutex_);
    return member_ ? member_->iterations() : iterations_;
  }

 private:
  struct InUse {
    explicit InUse(std::atomic<bool>* busy) : busy(*busy) {
      if (busy->exchange(true)) {
        throw Error("the member is in use by another call, expected one call at a time");
      }
    }
    ~InUse() { busy = false; }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    std::atomic<bool>& busy;
  };

  // Ends the member's threads, which write the array.
  void Reset() {
    std::unique_ptr<ClusterMember> ended;
    {
      const std::lock_guard lock(mutex_);
      iterations_ = member_->iterations();
      ended = std::move(member_);
    }
  }

  void ExpectThisProcess() const {
    if (getpid() == process_) return;
    throw Error("the member belongs to process ", process_, ", of which this one is a fork");
  }

  py::object array_, pin_;
  const pid_t process_ = getpid();
  std::atomic<bool> busy_ = false;
  bool joined_ = false;
  mutable std::mutex mutex_;  // for the reset of member_, which iterations() reads at any time
  std::unique_ptr<ClusterMember> member_;
  int64_t iterations_ = 0;  // at the end
};

// The values of an argument that is shaped as the member's array.
std::span<float> ValuesLike(const PyMember& self, const py::object& object, const std::string& name,
                            bool writable) {
  const std::span<float> values = ValuesOf(object, name, writable);
  const py::object shape = object.attr("shape"), expected = self.array().attr("shape");
  if (!shape.equal(expected)) {
    throw Error(name, ": shape ", py::str(shape).cast<std::string>(), " given, expected ",
                py::str(expected).cast<std::string>(), ", that of the member's array");
  }
  return values;
}

constexpr char kDoc[] = R"(A node of a cluster around a numpy array of the program.

Args:
  array: float32, contiguous, writable, of millrace.empty(shape). The other nodes' progress is
    written into it at any time, from now to the end of the member.
  topology: path of a topology file.
  node: this node's name there; without a name, the rank of the launcher chooses it.
  layout: a number that nodes with other contents of the array do not have.
  iteration: iterations that the array has seen, if this node's values start the run.
  rendezvous, nodes: etcd://HOST:PORT/RUN and MIN:MAX, for nodes that join and leave by a registry;
    the topology then has segments only, or is None, and the node has no name.
  scaling: how the program multiplies its learning rate by rate_factor: "linear" for steps that grow
    with the gradient (SGD), "root" for those that are divided by its magnitude (Adam), or "none".
  warmup: iterations of all nodes in which the factor rises from 1; at least 100 for each unit.)";

}  // namespace

void BindMember(py::module_* module) {
  py::class_<PyMember>(*module, "ClusterMember", kDoc)
      .def(py::init<const py::object&, const std::optional<Path>&, std::string, uint64_t, int64_t,
                    std::string, std::string, const std::string&, int64_t>(),
           py::arg("array"), py::arg("topology") = std::optional<Path>(), py::arg("node") = "",
           py::arg("layout") = 0, py::arg("iteration") = 0, py::kw_only(),
           py::arg("rendezvous") = "", py::arg("nodes") = "", py::arg("scaling") = "none",
           py::arg("warmup") = 0)
      .def_property_readonly("array", &PyMember::array, "The array that the cluster exchanges.")
      .def("join", &PyMember::Join, py::arg("seconds") = 60.0,
           "Waits until the array holds the run's values: its own if this node starts the run.")
      .def(
          "add",
          [](PyMember* self, const py::object& delta) {
            const std::span<const float> values = ValuesLike(*self, delta, "delta", false);
            self->Call([&](ClusterMember* member) { member->Add(values); });
          },
          py::arg("delta"),
          "Adds `delta`, shaped as the array, without losing what others write meanwhile. Counts\n"
          "one iteration. A value that is not finite ends this node and raises an Error.")
      .def(
          "merge",
          [](PyMember* self, const py::object& own, const py::object& base, int64_t iterations) {
            const std::span<float> values = ValuesLike(*self, own, "own", true);
            const std::span<float> before = ValuesLike(*self, base, "base", true);
            self->Call([&](ClusterMember* member) { member->Merge(values, before, iterations); });
          },
          py::arg("own"), py::arg("base"), py::arg("iterations") = 1,
          "Adds own - base as `add` does, then copies the array to both. For a loop that trains a\n"
          "copy `own` of the array, and has kept in `base` what it copied. Counts `iterations`.")
      .def(
          "count_alone",
          [](PyMember* self) {
            return self->Call([](ClusterMember* member) { return member->CountAlone(); });
          },
          "If no other node takes part, and the last merge was in the last 0.1 s, counts one\n"
          "iteration of such a loop and returns True: its change may wait in `own` for a later\n"
          "`merge`. Otherwise counts nothing and returns False: call `merge`.")
      .def_property_readonly("iterations", &PyMember::iterations,
                             "Iterations of all nodes, with those before the run. Any thread.")
      .def_property_readonly(
          "rate_factor",
          [](PyMember* self) {
            return self->Call([](ClusterMember* member) { return member->rate_factor(); });
          },
          "Factor of the learning rate of the next iteration, at least 1: above 1 where three to\n"
          "16 nodes average their progress.")
      .def_property_readonly(
          "nodes",
          [](PyMember* self) {
            return self->Call([](ClusterMember* member) { return member->nodes(); });
          },
          "Nodes that are in sync, with this one.")
      .def_property_readonly(
          "is_leader",
          [](PyMember* self) {
            return self->Call([](ClusterMember* member) { return member->is_leader(); });
          },
          "Whether this node is the one that tests and saves for all.")
      .def(
          "merged",
          [](PyMember* self) {
            py::array_t<float> merged(self->array().attr("shape").cast<std::vector<py::ssize_t>>());
            const std::span<float> to(merged.mutable_data(), static_cast<size_t>(merged.size()));
            self->Call([&](ClusterMember* member) { member->ReadMerged(to); });
            return merged;
          },
          "A copy of the values that all nodes agree on, without this node's unsent progress.")
      .def(
          "finish",
          [](PyMember* self) { self->End([](ClusterMember* member) { member->Finish(); }); },
          "Waits until all nodes have called finish and have the same values, then leaves.")
      .def(
          "leave",
          [](PyMember* self) { self->End([](ClusterMember* member) { member->Leave(); }); },
          "Sends unsent progress, then leaves. The other nodes continue.")
      .def(
          "fail",
          [](PyMember* self, const std::string& error) {
            self->End([&](ClusterMember* member) { member->Fail(error); });
          },
          py::arg("error"), "Tells the other nodes that this one has failed and leaves.");
}

}  // namespace millrace::python
