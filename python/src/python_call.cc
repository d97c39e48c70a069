#include "python_call.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "base/registration.h"
#include "owner.h"

namespace millrace::python {
namespace {

std::atomic<bool> ends = false;  // the interpreter
std::atomic<int> calls = 0;      // that run or wait for the interpreter's lock

}  // namespace

CountedCall::CountedCall() {
  ++calls;
  if (!ends) return;
  --calls;
  throw Error("the interpreter ends, expected no further call of code in Python");
}

CountedCall::~CountedCall() { --calls; }

HeldObject::~HeldObject() {
  if (!object_) return;
  try {
    const PythonCall call;
    object_ = py::object();
  } catch (const Error&) {
    object_.release();  // ends with the process
  }
}

void CallFactory(const std::function<void()>& make) {
  const PythonCall call;
  try {
    make();
  } catch (const py::error_already_set& error) {
    if (!error.matches(ErrorType())) throw;
    throw Error(py::cast<std::string>(py::str(error.value())));
  }
}

const RegisteredClass& RegisterClass(const std::string& kind, const std::string& name,
                                     py::object type, const std::string& signature,
                                     const std::function<void(const RegisteredClass&)>& add) {
  // Not destroyed: the interpreter may end first.
  static auto& all = *new std::map<std::pair<std::string, std::string>, RegisteredClass>;
  const auto [at, added] = all.try_emplace({kind, name});
  RegisteredClass& registered = at->second;
  if (!added && registered.signature != signature) {
    throw Error(kind, " ", name, ": has been registered with other parameters or attributes, ",
                "expected the same ones or another name");
  }
  registered.type = std::move(type);
  if (!added) return registered;
  registered.signature = signature;
  try {
    CheckRegistrations();
    add(registered);
    CheckRegistrations();
  } catch (...) {
    all.erase(at);
    throw;
  }
  return registered;
}

std::vector<PartParameter> ParametersOf(const GivenParameters& given) {
  std::vector<PartParameter> parameters;
  for (const auto& [name, otherwise, least, most, whole, required] : given) {
    parameters.push_back({name, otherwise, least, most, whole, required});
  }
  return parameters;
}

std::string SignatureOf(const GivenParameters& given) {
  std::string signature;
  for (const auto& [name, otherwise, least, most, whole, required] : given) {
    signature += StrCat(name, " ", otherwise, " ", least, " ", most, " ", whole, required, ";");
  }
  return signature;
}

py::dict ArgumentsOf(const std::vector<PartParameter>& parameters, const PartValues& values) {
  py::dict arguments;
  for (const PartParameter& parameter : parameters) {
    const double value = values.at(parameter.name);
    if (parameter.whole) {
      arguments[py::str(parameter.name)] = static_cast<int64_t>(value);
    } else {
      arguments[py::str(parameter.name)] = value;
    }
  }
  return arguments;
}

py::array_t<float> CopyOf(const float* values, size_t count) {
  py::array_t<float> copy(static_cast<py::ssize_t>(count));
  std::copy_n(values, count, copy.mutable_data());
  return copy;
}

void BindEnd(py::module_* module) {
  pthread_atfork(nullptr, nullptr, [] { calls = 0; });  // other threads are not in the new process
  module->def(
      "_end",
      [] {
        ends = true;
        const py::gil_scoped_release release;
        // A call that blocks does not keep the process for long.
        for (int i = 0; i < 10000 && calls > 0; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      "Waits until no thread of the library runs code in Python, for 10 s at most; none will\n"
      "begin to.");
  py::module_::import("atexit").attr("register")(module->attr("_end"));
}

}  // namespace millrace::python
