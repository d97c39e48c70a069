// What Python objects of this module hold together: a net or a session, who uses it, and blobs of
// it as numpy arrays.
#ifndef MILLRACE_PYTHON_OWNER_H_
#define MILLRACE_PYTHON_OWNER_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/metrics.h"
#include "millrace/net.h"
#include "millrace/session.h"

namespace millrace::python {

namespace py = pybind11;

using Path = std::filesystem::path;
using FloatArray = py::array_t<float, py::array::c_style>;

inline std::string TextOf(const std::optional<Path>& path) { return path ? path->string() : ""; }
std::vector<std::string> TextsOf(const std::vector<Path>& paths);
// (name, mean) of each output of a test.
std::vector<std::pair<std::string, double>> PairsOf(const std::vector<TestOutput>& outputs);

// A net, or a session with its nets. Every Python object that shows a part of it shares it, so that
// it exists as long as one of them.
struct Owner {
  std::unique_ptr<MetricsRegistry> metrics;  // of the session
  std::unique_ptr<Net> net;
  std::unique_ptr<Session> session;
  std::vector<std::shared_ptr<Owner>> sharers;  // whose weights the net uses
  std::atomic<bool> busy = false;               // a call computes on it
  // The objects of layers in Python, by their first top. The layers own them.
  std::map<const Blob*, PyObject*> python_layers;
  bool live_blobs = true;
  // Blobs that the next call begins with, with the interpreter's lock: their nets get plain_blobs
  // while no other thread looks at them.
  std::vector<std::pair<Net*, std::string>> wanted;
  bool reshaped = false;  // a blob of the train net has another shape since the last step

  Owner() = default;
  // Ends threads that may need the interpreter's lock, so without it.
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
};

// Deletes what ends only after its threads, which may need the interpreter.
template <typename T>
struct DeleteWithoutLock {
  void operator()(T* object) const {
    const py::gil_scoped_release release;
    delete object;
  }
};

// The owner whose net this thread builds or runs; layers in Python belong to it. Null: none.
std::shared_ptr<Owner>& CurrentOwner();

// Marks an owner as busy during a call. Throws Error if it is already.
class Busy {
 public:
  explicit Busy(std::shared_ptr<Owner> owner);
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  const std::shared_ptr<Owner> owner_;
  std::shared_ptr<Owner> before_;  // a layer in Python may run other nets
};

// Calls work() without the interpreter's lock, so that other Python threads run meanwhile.
template <typename Work>
auto Compute(const std::shared_ptr<Owner>& owner, Work work) {
  const Busy busy(owner);
  for (const auto& [net, name] : std::exchange(owner->wanted, {})) net->blob(name);
  const py::gil_scoped_release release;
  return work();
}

// An array of a net in Python.
class PyBlob {
 public:
  enum class Kind { kActivation, kWeight };

  // A blob of a net, whose owner it shares.
  PyBlob(std::shared_ptr<Owner> owner, Blob* blob, Kind kind)
      : owner_(std::move(owner)), blob_(blob), kind_(kind) {}
  // The blob `name` of `net`, which may have to be built anew before its values can be seen: with
  // the first use of more than its shape.
  PyBlob(std::shared_ptr<Owner> owner, Net* net, std::string name)
      : owner_(std::move(owner)), net_(net), name_(std::move(name)), kind_(Kind::kActivation) {}
  // A blob that a layer in Python is called with; `alive` becomes false when the blob ends.
  PyBlob(std::weak_ptr<Owner> owner, Blob* blob, Kind kind, std::shared_ptr<const bool> alive)
      : of_layer_(std::move(owner)), blob_(blob), kind_(kind), alive_(std::move(alive)) {}

  // Views of the memory, float32, row-major, writable, without a copy. Each keeps it, also when the
  // blob moves to other memory for a larger shape.
  py::array data() const;
  py::array diff() const;
  py::tuple shape() const;
  Shape dims() const;
  int64_t count() const { return ShapeCount(dims()); }
  // Uses the memory of `other`, also a weight of a net, from now on. Throws Error if one of them is
  // none, or for another shape.
  void Share(const PyBlob& other);
  // Throws Error if it is a learnable array, or if another call computes on the net.
  void Reshape(const std::vector<int64_t>& shape);

 private:
  Blob& Get() const;
  py::array View(float* values) const;

  std::shared_ptr<Owner> owner_;
  std::weak_ptr<Owner> of_layer_;
  Net* net_ = nullptr;
  std::string name_;
  mutable Blob* blob_ = nullptr;  // null: net_ has not been asked for it
  Kind kind_;
  std::shared_ptr<const bool> alive_;  // null: the owner keeps the blob
};

// A whole number in Python, of any type. Throws TypeError for others.
int64_t WholeNumber(py::handle number);

// The values of an array of float32 in row-major order. Throws Error for other objects; `name`: of
// the argument.
std::span<float> ValuesOf(const py::object& object, const std::string& name, bool writable);

// Ends a wait of the main thread with the exception of a signal's handler. Takes the interpreter's
// lock.
void PollSignals();

// Bindings, each in a file of its name.
void BindBlob(py::module_* module);
void BindNet(py::module_* module);
void BindSession(py::module_* module);
void BindRun(py::module_* module);
void BindControl(py::module_* module);
void BindMember(py::module_* module);
void BindProcessGroup(py::module_* module);
void BindPythonLayer(py::module_* module);
void BindPythonSource(py::module_* module);
void BindPythonRule(py::module_* module);
void BindPythonConditions(py::module_* module);
void BindEnd(py::module_* module);

// The Python object of a net that `owner` has.
py::object NetOf(std::shared_ptr<Owner> owner, Net* net);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_OWNER_H_
