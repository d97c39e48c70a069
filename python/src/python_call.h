// Calls of code in Python from any thread, and the objects in Python that C++ code holds.
#ifndef MILLRACE_PYTHON_PYTHON_CALL_H_
#define MILLRACE_PYTHON_PYTHON_CALL_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "millrace/part.h"

namespace millrace::python {

namespace py = pybind11;

// Counts a call, for which the interpreter waits before it ends.
class CountedCall {
 public:
  // Throws Error once the interpreter ends.
  CountedCall();
  ~CountedCall();
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
};

// Holds the interpreter's lock during a call of code in Python, on any thread. An exception of that
// code ends the net or run as py::error_already_set, with its traceback.
class PythonCall {
 public:
  PythonCall() = default;

 private:
  CountedCall counted_;
  py::gil_scoped_acquire acquire_;
};

// An object in Python that code on any thread destroys.
class HeldObject {
 public:
  HeldObject() = default;
  // With the interpreter's lock.
  explicit HeldObject(py::object object) : object_(std::move(object)) {}
  HeldObject(HeldObject&&) = default;
  HeldObject& operator=(HeldObject&&) = delete;
  ~HeldObject();

  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

// Calls make() with the interpreter's lock. A millrace.Error of Python becomes an Error, so that
// the caller adds file and field; other exceptions stay as they are.
void CallFactory(const std::function<void()>& make);

// A class that is registered under a name, as it is now.
struct RegisteredClass {
  py::object type;
  std::string signature;  // what cannot change: kind, parameters and the like
};

// Registers a class in Python: calls `add` for the first one of this kind and name; a later one
// replaces it in nets and runs that are made afterwards. The result exists as long as the process.
// Throws Error for a name that is taken, or if `signature` has changed.
const RegisteredClass& RegisterClass(const std::string& kind, const std::string& name,
                                     py::object type, const std::string& signature,
                                     const std::function<void(const RegisteredClass&)>& add);

// Parameters of a part as Python gives them: name, default, least, most, whole, required.
using GivenParameters = std::vector<std::tuple<std::string, double, double, double, bool, bool>>;
std::vector<PartParameter> ParametersOf(const GivenParameters& given);
std::string SignatureOf(const GivenParameters& given);
// The values of all parameters, as named arguments; whole numbers are int.
py::dict ArgumentsOf(const std::vector<PartParameter>& parameters, const PartValues& values);

// A copy of floats as an array of numpy.
py::array_t<float> CopyOf(const float* values, size_t count);

// millrace.Error.
py::handle ErrorType();

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_PYTHON_CALL_H_
